#include "api/sessions/session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "api/sessions/kernel_json.h"
#include "api/sessions/wakes.h"
#include "shared/frame_codec.h"
#include "shared/log.h"

namespace sessions {

using nlohmann::json;
using shared::CellId;
using shared::Error;
using shared::ErrorCode;
using shared::Result;
using store::CellStatus;

namespace {
constexpr std::size_t kRunIdBytes = 6;
constexpr std::size_t kTokenBytes = 32;
constexpr std::size_t kAdopted = 64;  // unknown cells believed of one kernel
}  // namespace

Session::Session(const SessionWorld& world, store::SessionRow made)
    : row(std::move(made)), world_(world) {}

Session::~Session() {
    detach();
}

// --- the kernel ---------------------------------------------------------------------------------

void Session::replace_link(KernelRecord record) {
    drop_link();
    link_ = std::make_shared<KernelLink>(world_.link, std::move(record), *this);
    worker_ = nullptr;
    jobs_.clear();
}

void Session::drop_link() {
    away_since_.reset();
    if (!link_) return;
    link_->leave();
    // Perhaps one of its own functions called us.
    world_.link.loop.post([old = std::move(link_)] {});
    link_.reset();
}

void Session::detach() {
    drop_link();
}

void Session::make_kernel() {
    KernelRecord record;
    record.session = row.id;
    record.run_id = shared::random_hex(kRunIdBytes);
    record.token = shared::random_hex(kTokenBytes);
    record.host = row.host;
    record.folder = row.path;
    start_failure_.clear();
    kernel_kept_ = false;
    replace_link(record);
    world_.database.post(
        [record](store::Connection& connection) {
            return store::insert_kernel(connection, record);
        },
        [this, weak = weak_from_this(), link = link_](const Result<void>& kept) {
            auto self = weak.lock();
            auto lock = world_.link.monitor.lock();
            if (!self || link_ != link) return;
            if (!kept)
                return failed("the kernel's record could not be stored: " + kept.error().message);
            kernel_kept_ = true;
            link_->want();
        });
}

void Session::restore_kernel(KernelRecord record) {
    replace_link(std::move(record));
    kernel_kept_ = true;
}

void Session::restore_cell(store::CellRow cell) {
    auto live = std::make_shared<LiveCell>(std::move(cell), kFirstCredit);
    live->kept = true;
    live->maybe_sent = link_ != nullptr;
    const auto& kept = live->row;  // that it went to the background is in no row
    live->backgrounded = kept.background_ms > 0 && kept.started_at > 0 &&
                         shared::wall_ms() - kept.started_at > kept.background_ms;
    cells_[live->row.id] = live;
    if (!live->row.code) return;  // adopted: the kernel has it
    if (!link_) return;           // begin() makes a kernel
    (void)link_->push(execute_frame(*live, kFirstCredit), 0, live->row.id.text());
    if (live->row.interrupt > 0) (void)interrupt(*live, live->row.interrupt > 1);
}

void Session::restore_call(const store::KernelCallRow& call) {
    if (!link_ || link_->record().run_id != call.run_id) return;
    if (call.answer.empty()) {
        begin_call(call.run_id, call.call, call.method, json::parse(call.args, nullptr, false));
    } else {
        (void)link_->push(json::parse(call.answer, nullptr, false), call.call);
    }
}

void Session::begin() {
    const bool waiting = std::any_of(cells_.begin(), cells_.end(),
                                     [](const auto& cell) { return !cell.second->finished(); });
    if (link_) {
        if (link_->record().confirmed)
            link_->recover();
        else if (waiting)
            link_->want();
        return;
    }
    if (!waiting) return;
    make_kernel();
    for (auto& [id, cell] : cells_)
        if (!cell->finished()) (void)link_->push(execute_frame(*cell, kFirstCredit), 0, id.text());
}

void Session::gone(const std::string& detail) {
    shared::log_info("kernel gone", {{"session", row.id.text()}, {"why", detail}});
    const std::string run_id = link_->record().run_id;
    if (link_->record().confirmed && on_kernel_gone) on_kernel_gone(detail);
    world_.database.post(
        [run_id](store::Connection& connection) {
            return store::delete_kernel(connection, run_id);
        },
        [](const Result<void>&) {});
    lose_jobs();
    std::vector<CellPtr> unsent;
    for (auto& [id, cell] : cells_) {
        if (cell->finished()) continue;
        if (cell->maybe_sent) {
            finish(*cell, CellStatus::lost, "KernelLost", "the kernel is gone: " + detail);
            if (cell->backgrounded) owe(wake_key(id), wake_line(cell->row), id);
        }
        else
            unsent.push_back(cell);
    }
    if (unsent.empty()) return;
    make_kernel();
    for (const auto& cell : unsent)
        (void)link_->push(execute_frame(*cell, kFirstCredit), 0, cell->row.id.text());
}

void Session::failed(const std::string& detail) {
    start_failure_ = detail;
    const std::string run_id = link_->record().run_id;
    world_.database.post(
        [run_id](store::Connection& connection) {
            return store::delete_kernel(connection, run_id);
        },
        [](const Result<void>&) {});
    drop_link();
    for (auto& [id, cell] : cells_)
        if (!cell->finished()) finish(*cell, CellStatus::error, "KernelStartError", detail);
}

std::optional<store::EndingRow> Session::end_kernel() {
    std::optional<store::EndingRow> ending;
    if (link_ && link_->state() != LinkState::lost) {
        ending = {link_->record().run_id, link_->record().host, link_->run_folder()};
        if (ending->run.empty()) ending.reset();  // its host was never reached
    }
    drop_link();
    for (auto& [id, cell] : cells_)
        if (!cell->finished())
            finish(*cell, CellStatus::lost, "KernelEnded", "the kernel was ended");
    return ending;
}

void Session::on_host_news() {
    if (link_ && kernel_kept_) link_->news();
}

void Session::on_channel_lost() {
    if (link_) link_->channel_lost();
}

void Session::link_changed() {
    const auto now = shared::Monotonic::now();
    if (link_ && link_->state() == LinkState::reattaching && !away_since_) away_since_ = now;
    if (link_ && link_->state() == LinkState::attached && away_since_) {
        world_.metrics.add(metrics::Count::reattaches, {row.host});
        world_.metrics.observe(metrics::Time::reattaches, {row.host}, now - *away_since_);
        away_since_.reset();
    }
    for (auto& [id, cell] : cells_) cell->notify();
}

void Session::link_confirmed() {
    const auto record = link_->record();
    world_.database.post(
        [record](store::Connection& connection) {
            return store::confirm_kernel(connection, record.run_id, record.run);
        },
        [](const Result<void>&) {});
}

// --- cells --------------------------------------------------------------------------------------

json Session::execute_frame(const LiveCell& cell, std::uint64_t credit) const {
    json frame = {{"t", "execute"},
                  {"cell", cell.row.id.text()},
                  {"code", cell.row.code.value_or("")},
                  {"credit", credit}};
    if (cell.row.timeout_ms > 0) frame["timeout_ms"] = cell.row.timeout_ms;
    if (cell.row.background_ms > 0) frame["background_ms"] = cell.row.background_ms;
    return frame;
}

Session::CellPtr Session::find(CellId id) const {
    const auto found = cells_.find(id);
    return found == cells_.end() ? nullptr : found->second;
}

bool Session::has_open_cell() const {
    return std::any_of(cells_.begin(), cells_.end(),
                       [](const auto& cell) { return !cell.second->finished(); });
}

Result<Session::CellPtr> Session::submit(const CellRequest& request) {
    const auto unfinished = std::count_if(
        cells_.begin(), cells_.end(), [](const auto& cell) { return !cell.second->finished(); });
    if (static_cast<std::size_t>(unfinished) >= kUnfinishedCells)
        return Error{ErrorCode::overloaded, "too many cells wait in this session", row.host};
    store::CellRow made;
    made.id = request.id;
    made.session = row.id;
    made.code = request.code;
    made.timeout_ms = request.timeout_ms;
    made.background_ms = request.background_ms;
    made.created_ms = shared::wall_ms();
    auto cell = std::make_shared<LiveCell>(made, kFirstCredit);
    if (!link_ || link_->state() == LinkState::lost) make_kernel();
    if (auto pushed = link_->push(execute_frame(*cell, kFirstCredit), 0, request.id.text());
        !pushed)
        return pushed.error();
    cell->maybe_sent = request.maybe_sent || link_->state() == LinkState::attached;
    cells_[request.id] = cell;
    row.used_ms = made.created_ms;
    world_.page.add(shared::Counter::cells);
    world_.database.post(
        [made = std::move(made)](store::Connection& connection) -> Result<void> {
            auto fresh = store::insert_cell(connection, made);
            if (!fresh) return fresh.error();
            if (!*fresh)
                return Error{ErrorCode::conflict, "there is another cell with this id", {}};
            return store::touch_session(connection, made.session, made.created_ms);
        },
        [this, cell, weak = weak_from_this()](const Result<void>& kept) {
            auto self = weak.lock();
            if (!self) return;
            auto lock = world_.link.monitor.lock();
            cell->kept = kept.ok();
            if (!kept) cell->keep_failed = kept.error().message;
            // Who watches waits for the end: this alone is worth no wake-up.
            if (cell->finished() || !kept)
                cell->notify();
            else
                cell->changed.notify_all();
        });
    if (kernel_kept_) link_->want();
    return cell;
}

void Session::save(const LiveCell& cell) {
    world_.database.post(
        [saved = cell.row](store::Connection& connection) {
            return store::save_cell(connection, saved);
        },
        [](const Result<void>&) {});
}

void Session::finish(LiveCell& cell, CellStatus status, const std::string& name,
                     const std::string& message) {
    cell.row.status = status;
    world_.metrics.add(metrics::Count::cells, {store::to_string(status)});
    if (!name.empty())
        cell.row.error = dump(json{{"name", name}, {"message", message}, {"traceback", ""}});
    save(cell);
    cell.notify();
}

Result<void> Session::interrupt(LiveCell& cell, bool force) {
    if (cell.finished()) return {};
    if (link_ && !cell.maybe_sent && link_->retract(cell.row.id.text())) {
        finish(cell, CellStatus::interrupted);  // it never left
        return {};
    }
    if (!link_) return {};
    auto pushed = link_->push({{"t", "interrupt"}, {"cell", cell.row.id.text()}, {"force", force}});
    if (!pushed) return pushed;
    cell.row.interrupt = std::max(cell.row.interrupt, force ? 2 : 1);
    save(cell);
    return {};
}

void Session::evict() {
    auto finished = static_cast<std::size_t>(std::count_if(
        cells_.begin(), cells_.end(), [](const auto& cell) { return cell.second->finished(); }));
    for (auto at = cells_.begin(); at != cells_.end() && finished > kFinishedCellsKept;) {
        const LiveCell& cell = *at->second;
        if (!cell.finished() || !cell.kept || cell.output.readers() > 0) {
            ++at;
            continue;
        }
        if (on_evicted) on_evicted(at->first);
        at = cells_.erase(at);
        --finished;
    }
}

// --- output -------------------------------------------------------------------------------------

void Session::output(const std::string& cell_bytes, std::uint64_t offset,
                     std::shared_ptr<const std::string> payload, std::size_t skip) {
    CellId id;
    std::memcpy(id.uuid.bytes.data(), cell_bytes.data(), id.uuid.bytes.size());
    const CellPtr cell = find(id);
    if (!cell) return;
    cell->output.append(offset, std::move(payload), skip);
    cell->notify();
}

void Session::pull(LiveCell& cell, std::uint64_t offset) {
    if (!link_ || link_->state() != LinkState::attached || !cell.maybe_sent) return;
    if (cell.finished() && cell.output.end() >= cell.row.output_bytes) return;
    if (auto window = cell.output.want(offset))
        link_->send_now(
            static_cast<std::uint8_t>(shared::FrameKind::credit),
            {{"cell", cell.row.id.text()}, {"from", window->from}, {"until", window->until}});
}

bool Session::ask_page(CellId cell, std::uint64_t offset, std::size_t limit, std::uint64_t& id,
                       PageWait& wait) {
    if (!link_ || link_->state() != LinkState::attached) return false;
    id = next_page_++;
    pages_[id] = &wait;
    if (link_->send_now(static_cast<std::uint8_t>(shared::FrameKind::page),
                        {{"id", id}, {"cell", cell.text()}, {"offset", offset}, {"limit", limit}}))
        return true;
    pages_.erase(id);
    return false;
}

void Session::page(std::string payload) {
    constexpr std::size_t kHead = 8 + 16 + 8 + 1;
    if (payload.size() < kHead) return;
    std::uint64_t id = 0;
    for (std::size_t i = 0; i < 8; ++i) id = id << 8 | static_cast<unsigned char>(payload[i]);
    const auto found = pages_.find(id);
    if (found == pages_.end()) return;
    PageWait& wait = *found->second;
    pages_.erase(found);
    wait.flags = static_cast<std::uint8_t>(payload[kHead - 1]);
    wait.bytes = payload.substr(kHead);
    wait.answered = true;
    wait.changed.notify_all();
}

void Session::detached() {
    for (auto& [id, wait] : std::exchange(pages_, {})) {
        wait->cut_off = true;
        wait->changed.notify_all();
    }
    for (auto& [id, cell] : cells_)
        if (cell->maybe_sent) cell->output.detached();
}

json Session::credits() {
    json windows = json::array();
    for (auto& [id, cell] : cells_) {
        if (!cell->maybe_sent || (cell->finished() && cell->output.readers() == 0)) continue;
        if (auto window = cell->output.resume())
            windows.push_back(
                {{"cell", id.text()}, {"from", window->from}, {"until", window->until}});
    }
    return windows;
}

// --- what the kernel says -----------------------------------------------------------------------

/// Nobody waits for it: what is not stored is not acknowledged, and the kernel says it again.
void Session::keep(FrameNumber number, Effect effect, std::function<void()> after) {
    world_.database.post_soon(
        [run_id = link_->record().run_id, number,
         effect = std::move(effect)](store::Connection& connection) -> Result<void> {
            if (auto received = store::receive_frame(connection, run_id, number.before, number.seq);
                !received)
                return received;
            return effect ? effect(connection) : Result<void>{};
        },
        [&monitor = world_.link.monitor, number, after = std::move(after), owner = weak_from_this(),
         weak = std::weak_ptr(link_)](const Result<void>& kept) {
            auto link = weak.lock();
            auto self = owner.lock();
            auto lock = monitor.lock();
            if (link && kept)
                link->stored(number.seq);
            else if (link)
                link->store_failed("what the kernel said could not be stored: " +
                                   kept.error().message);
            if (kept && self && after) after();
        });
}

Session::CellPtr Session::adopt(CellId id) {
    const auto adopted = std::count_if(cells_.begin(), cells_.end(), [](const auto& cell) {
        return !cell.second->row.code.has_value();
    });
    if (static_cast<std::size_t>(adopted) >= kAdopted) return nullptr;
    store::CellRow made;
    made.id = id;
    made.session = row.id;
    made.created_ms = shared::wall_ms();
    auto cell = std::make_shared<LiveCell>(std::move(made), 0);
    cell->maybe_sent = true;
    cell->kept = true;
    cells_[id] = cell;
    return cell;
}

void Session::hello(const json& hello) {
    const auto cells = hello.find("cells");
    if (cells != hello.end() && cells->is_array()) {
        for (const auto& item : *cells) {
            if (!item.is_object()) continue;
            const auto id = CellId::parse(text_of(item, "cell"));
            const std::string status = text_of(item, "status");
            if (!id || (status != "queued" && status != "running")) continue;
            CellPtr cell = find(*id);
            if (!cell && (cell = adopt(*id))) save(*cell);
            if (cell && !cell->finished() && status == "running")
                cell->row.status = CellStatus::running;
        }
    }
    jobs_.clear();
    if (const auto jobs = hello.find("jobs"); jobs != hello.end() && jobs->is_array())
        for (const auto& job : *jobs) take_job(job);
    if (const auto worker = hello.find("worker"); worker != hello.end()) worker_ = *worker;
    for (auto& [id, cell] : cells_) {
        if (!cell->finished()) cell->maybe_sent = true;
        cell->notify();
    }
}

void Session::control(FrameNumber number, const json& frame) {
    const std::string type = text_of(frame, "t");
    const auto id = CellId::parse(text_of(frame, "cell"));
    CellPtr cell = id ? find(*id) : nullptr;
    if (type == "done" && id) {
        if (!cell) cell = adopt(*id);
        if (!cell) return keep(number, nullptr);
        if (!cell->finished()) take_done(*cell, frame);
        std::optional<store::WakeRow> wake;  // whoever interrupted it knows
        if (cell->backgrounded && cell->row.background_ms > 0 && cell->row.interrupt == 0)
            wake = {0, row.id, wake_key(cell->row.id), wake_line(cell->row), shared::wall_ms()};
        keep(
            number,
            [saved = cell->row, wake](store::Connection& connection) -> Result<void> {
                if (auto kept = store::save_cell(connection, saved); !kept) return kept;
                return wake ? store::insert_wake(connection, *wake) : Result<void>{};
            },
            [this, owed = wake.has_value()] {
                if (owed && on_wake) on_wake();
            });
        cell->notify();
        return evict();
    }
    if (type == "call") return take_call(number, frame);
    if (type == "started" && cell && !cell->finished()) {
        cell->row.status = CellStatus::running;
        cell->row.started_at = number_of(frame, "at");
        keep(number, [saved = cell->row](store::Connection& connection) {
            return store::save_cell(connection, saved);
        });
        cell->notify();
        return;
    }
    if (type == "interrupting" && cell) {
        cell->interrupt_step =
            static_cast<int>(std::clamp<std::int64_t>(number_of(frame, "step"), 0, 4));
        cell->interrupt_text = text_of(frame, "text");
        cell->notify();
    } else if (type == "backgrounded" && cell) {
        cell->backgrounded = true;
        if (!cell->finished()) cell->row.output = text_of(frame, "output");
        cell->notify();
    } else if (type == "worker") {
        worker_ = frame;
        worker_.erase("t");
    } else if (type == "job") {
        take_job(frame);
        return keep_job(number, frame);
    } else if (type == "restored") {
        if (on_kernel_restored) on_kernel_restored(frame);
    } else if (type == "kept") {
        shared::log_info("idle kernel kept",
                         {{"session", row.id.text()}, {"why", text_of(frame, "why")}});
    }
    keep(number, nullptr);
    // Last: it may end the link that this came by.
    if (type == "released" && !busy() && on_kernel_released) on_kernel_released(frame);
}

bool Session::ask_release() {
    if (busy() || !jobs_.empty() || !link_ || link_->state() != LinkState::attached) return false;
    return link_->push({{"t", "release"}}).ok();
}

void Session::take_done(LiveCell& cell, const json& frame) {
    const auto status = store::cell_status(text_of(frame, "status"));
    cell.row.status = status && store::finished(*status) ? *status : CellStatus::error;
    world_.metrics.add(metrics::Count::cells, {store::to_string(cell.row.status)});
    cell.row.value = text_of(frame, "value");
    const auto error = frame.find("error");
    cell.row.error = error != frame.end() && error->is_object() ? dump(*error) : "";
    cell.row.output = text_of(frame, "output");
    cell.row.truncated = flag_of(frame, "truncated");
    cell.row.output_bytes =
        static_cast<std::uint64_t>(std::max<std::int64_t>(0, number_of(frame, "output_bytes")));
    cell.row.started_at = number_of(frame, "started_at");
    cell.row.ms = number_of(frame, "ms");
    const auto images = frame.find("images");
    cell.row.images = images != frame.end() && images->is_array() ? dump(*images) : "";
}

void Session::take_call(FrameNumber number, const json& frame) {
    const std::int64_t call = number_of(frame, "call");
    if (call <= 0) return keep(number, nullptr);
    store::KernelCallRow made;
    made.run_id = link_->record().run_id;
    made.call = static_cast<std::uint64_t>(call);
    made.method = text_of(frame, "method");
    const json args = frame.value("args", json());
    made.args = dump(args);
    world_.database.post(
        [made, number](store::Connection& connection) -> Result<void> {
            if (auto received =
                    store::receive_frame(connection, made.run_id, number.before, number.seq);
                !received)
                return received;
            return store::insert_call(connection, made);
        },
        [this, made, args, number, weak = weak_from_this(),
         weak_link = std::weak_ptr(link_)](const Result<void>& kept) {
            auto self = weak.lock();
            auto link = weak_link.lock();
            if (!self || !link) return;
            {
                auto lock = world_.link.monitor.lock();
                if (!kept) return link->store_failed("a call could not be stored");
                link->stored(number.seq);
            }
            begin_call(made.run_id, made.call, made.method, args);
        });
}

void Session::begin_call(const std::string& run_id, std::uint64_t call, const std::string& method,
                         json args) {
    world_.calls.begin({row.id, row.workspace, run_id, call, method, std::move(args)},
                       [this, run_id, call, weak = weak_from_this()](Result<json> answer) {
                           json frame = {{"t", "answer"}, {"call", call}, {"ok", answer.ok()}};
                           if (answer)
                               frame["value"] = *answer;
                           else
                               frame["error"] = answer.error().message;
                           auto self = weak.lock();
                           if (!self) return;
                           world_.database.post(
                               [run_id, call, text = dump(frame)](store::Connection& connection) {
                                   return store::answer_call(connection, run_id, call, text);
                               },
                               [this, weak, run_id, call, frame](const Result<void>&) {
                                   auto alive = weak.lock();
                                   if (!alive) return;
                                   auto lock = world_.link.monitor.lock();
                                   if (link_ && link_->record().run_id == run_id)
                                       (void)link_->push(frame, call);
                               });
                       });
}

void Session::answered(std::uint64_t call) {
    world_.database.post(
        [run_id = link_->record().run_id, call](store::Connection& connection) {
            return store::delete_call(connection, run_id, call);
        },
        [](const Result<void>&) {});
}

}  // namespace sessions
