// The part of a session that knows jobs: what runs, what is asked about it, and ends of which the model
// is to hear by a turn of its own.
#include <utility>

#include "api/sessions/kernel_json.h"
#include "api/sessions/session.h"
#include "api/sessions/wakes.h"
#include "shared/frame_codec.h"

namespace sessions {

using nlohmann::json;
using shared::CellId;
using shared::Result;

namespace {
constexpr std::size_t kJobsKept = 128;
}  // namespace

void Session::take_job(const json& job) {
    if (!job.is_object()) return;
    const auto number = number_of(job, "job");
    if (text_of(job, "state") != "running")
        jobs_.erase(number);
    else if (jobs_.size() < kJobsKept)
        jobs_[number] = job;
}

bool Session::ask_query(json question, std::uint64_t& id, PageWait& wait) {
    if (!link_ || link_->state() != LinkState::attached) return false;
    id = next_page_++;
    question["id"] = id;
    pages_[id] = &wait;
    if (link_->send_now(static_cast<std::uint8_t>(shared::FrameKind::query), question)) return true;
    pages_.erase(id);
    return false;
}

void Session::query(const std::string& payload) {
    const auto answer = parse_kernel_json(payload);
    if (!answer) return;
    const auto found = pages_.find(static_cast<std::uint64_t>(number_of(*answer, "id", -1)));
    if (found == pages_.end()) return;
    PageWait& wait = *found->second;
    pages_.erase(found);
    wait.bytes = payload;
    wait.answered = true;
    wait.changed.notify_all();
}

// --- ends that the model is to hear of ----------------------------------------------------------

namespace {
/// Only what a cell of the session's turns started: those may go on in the background.
Result<void> insert_owed(store::Connection& connection, const store::WakeRow& wake,
                         CellId started_by) {
    auto cell = store::find_cell(connection, started_by);
    if (!cell) return std::move(cell).error();
    if (!*cell || (*cell)->background_ms <= 0 || (*cell)->session != wake.session) return {};
    return store::insert_wake(connection, wake);
}
}  // namespace

void Session::keep_job(FrameNumber number, const json& job) {
    const std::string state = text_of(job, "state");
    const std::string key = wake_key(link_->record().run_id, job);
    const auto cell = CellId::parse(text_of(job, "cell"));
    if (on_job && state != "read") on_job(job);
    if (state == "read")
        return keep(number, [id = row.id, key](store::Connection& connection) {
            return store::retire_wake(connection, id, key);
        });
    if (!flag_of(job, "unread") || (state != "ended" && state != "lost") || !cell)
        return keep(number, nullptr);
    const store::WakeRow wake{0, row.id, key, wake_line(job), shared::wall_ms()};
    keep(
        number,
        [wake, cell = *cell](store::Connection& connection) {
            return insert_owed(connection, wake, cell);
        },
        [this] {
            if (on_wake) on_wake();
        });
}

void Session::owe(std::string key, std::string text, CellId started_by) {
    const store::WakeRow wake{0, row.id, std::move(key), std::move(text), shared::wall_ms()};
    world_.database.post(
        [wake, started_by](store::Connection& connection) {
            return insert_owed(connection, wake, started_by);
        },
        [this, weak = weak_from_this()](const Result<void>& kept) {
            auto self = weak.lock();
            if (!self || !kept) return;
            auto lock = world_.link.monitor.lock();
            if (on_wake) on_wake();
        });
}

/// The kernel is gone: so are its jobs, but those that outlive it, of which the next one tells.
void Session::lose_jobs() {
    for (auto& [number, job] : std::exchange(jobs_, {})) {
        const auto cell = CellId::parse(text_of(job, "cell"));
        if (flag_of(job, "kept")) continue;
        job["state"] = "lost";
        job["end"] = "lost with its kernel, so how it ended is not known";
        if (on_job) on_job(job);
        if (cell && !flag_of(job, "service"))
            owe(wake_key(link_->record().run_id, job), wake_line(job), *cell);
    }
}

}  // namespace sessions
