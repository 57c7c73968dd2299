#include "api/sessions/jobs.h"

#include "api/sessions/kernel_json.h"

namespace sessions {

using nlohmann::json;
using shared::Error;
using shared::ErrorCode;
using shared::Result;
using shared::SessionId;

namespace {
constexpr std::size_t kListed = 256;
constexpr shared::Milliseconds kListDeadline{3'000};  // then what is known has to do

Error no_session() {
    return {ErrorCode::not_found, "no such session", {}};
}

json row_of(const json& job, bool current) {
    json row = {{"id", number_of(job, "job")},
                {"pid", number_of(job, "pid")},
                {"command", text_of(job, "command")},
                {"state", text_of(job, "state", "running")},
                {"started_at", number_of(job, "started_at")},
                {"ms", number_of(job, "ms")},
                {"exit_code", nullptr},
                {"end", text_of(job, "end")},
                {"timed_out", flag_of(job, "timed_out")},
                {"output_bytes", number_of(job, "output_bytes")},
                {"service", flag_of(job, "service")},
                {"kept", flag_of(job, "kept")},
                {"current", current}};
    const auto code = job.find("exit_code");
    if (code != job.end() && code->is_number_integer()) row["exit_code"] = *code;
    return row;
}
}  // namespace

Jobs::Jobs(Sessions& sessions) : sessions_(sessions), monitor_(sessions.world().link.monitor) {}

Jobs::Asked Jobs::ask(agents::Monitor::Lock& lock, Session& session, json question,
                      shared::TimePoint deadline, json& answer) {
    PageWait wait;
    std::uint64_t id = 0;
    if (!session.ask_query(std::move(question), id, wait)) return Asked::away;
    wait.changed.wait_until(lock, deadline, [&] { return wait.answered || wait.cut_off; });
    session.forget_page(id);
    auto parsed = wait.answered ? parse_kernel_json(wait.bytes) : Result<json>(no_session());
    if (!parsed || !flag_of(*parsed, "ok")) return Asked::cut_off;
    answer = std::move(*parsed);
    return Asked::answered;
}

Result<json> Jobs::list(SessionId id, shared::TimePoint deadline) {
    auto lock = monitor_.lock();
    const auto session = sessions_.find(lock, id);
    if (!session) return no_session();
    json rows = json::array();
    json answer;
    deadline = std::min(deadline, shared::Monotonic::now() + kListDeadline);
    if (ask(lock, *session, {{"op", "jobs"}}, deadline, answer) == Asked::answered) {
        const auto jobs = answer.find("jobs");
        if (jobs != answer.end() && jobs->is_array())
            for (const auto& job : *jobs)
                if (job.is_object() && rows.size() < kListed) rows.push_back(row_of(job, true));
        return rows;
    }
    for (const auto& [number, job] : session->jobs()) rows.push_back(row_of(job, false));
    return rows;
}

Result<std::string> Jobs::stop(SessionId id, std::int64_t job, shared::TimePoint deadline) {
    auto lock = monitor_.lock();
    const auto session = sessions_.find(lock, id);
    if (!session) return no_session();
    const auto* link = session->link();
    if (link == nullptr || link->state() == LinkState::lost)
        return Error{ErrorCode::not_found, "this session has no kernel, so no jobs", {}};
    json answer;
    switch (ask(lock, *session, {{"op", "stop_job"}, {"job", job}}, deadline, answer)) {
        case Asked::away:
            return Error{ErrorCode::unavailable, "the kernel cannot be reached now: nothing was done",
                         session->row.host};
        case Asked::cut_off:
            return Error{ErrorCode::timed_out,
                         "the job was told to stop and no answer came; look before you repeat it",
                         session->row.host};
        case Asked::answered:
            break;
    }
    const std::string stopped = text_of(answer, "stopped");
    if (stopped.empty()) return Error{ErrorCode::not_found, "no such job in this session", {}};
    return stopped;
}

}  // namespace sessions
