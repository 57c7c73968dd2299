// `albedo jobs`: the programs that a session's cells started with run(), and ending one.
#include <filesystem>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/json_fields.h"
#include "cli/sessions.h"
#include "cli/terminal.h"

namespace cli {
namespace {

/// The sessions meant: the one that is named, or all.
shared::Result<std::vector<Session>> sessions_of(Client& client, const std::string& named) {
    if (!named.empty()) {
        auto session = session_of_target(client, named);
        if (!session) return session.error();
        return std::vector<Session>{std::move(*session)};
    }
    auto listed = list_sessions(client);
    if (!listed) return listed.error();
    std::vector<Session> sessions;
    for (const Json& row : *listed)
        sessions.push_back({text_at(row, "id"), text_at(row, "workspace")});
    return sessions;
}

std::string path_of(const Session& session) {
    return "/sessions/" + path_segment(session.id) + "/jobs";
}

std::string state_of(const Json& job) {
    const std::string end = text_at(job, "end");
    std::string state = end.empty() ? text_at(job, "state") : end;
    if (!job.value("current", true)) state += ", when last heard of";
    return state;
}

std::string number_at(const Json& job, const char* key) {
    const auto found = job.find(key);
    return found != job.end() && found->is_number_integer() ? found->dump() : "";
}

}  // namespace

shared::Result<int> run_jobs(const Common& common, const JobsOptions& options) {
    Client client(common.home);
    auto sessions = sessions_of(client, options.session);
    if (!sessions) return sessions.error();
    Json found = Json::array();
    std::vector<std::vector<std::string>> rows{
        {"JOB", "PID", "SINCE", "STATE", "WORKSPACE", "COMMAND"}};
    for (const Session& session : *sessions) {
        auto jobs = client.get(path_of(session));
        if (!jobs) {
            if (options.session.empty() && jobs.error().code == shared::ErrorCode::not_found)
                continue;  // it was deleted meanwhile
            return jobs.error();
        }
        for (Json& job : *jobs) {
            rows.push_back({number_at(job, "id"), number_at(job, "pid"),
                            duration_text(job.value("ms", std::int64_t{0})), state_of(job),
                            session.workspace, text_at(job, "command")});
            job["session"] = session.id;
            found.push_back(std::move(job));
        }
    }
    if (common.json)
        write_output(found.dump() + "\n");
    else
        write_output(rows.size() > 1 ? table(rows) : "no jobs\n");
    return kOk;
}

/// Without a session the only one that has this job, running.
shared::Result<int> run_stop_job(const Common& common, const JobsOptions& options) {
    Client client(common.home);
    auto sessions = sessions_of(client, options.session);
    if (!sessions) return sessions.error();
    if (options.session.empty()) {
        std::vector<Session> having;
        for (const Session& session : *sessions) {
            auto jobs = client.get(path_of(session));
            if (!jobs) continue;
            for (const Json& job : *jobs)
                if (number_at(job, "id") == options.job && text_at(job, "state") == "running")
                    having.push_back(session);
        }
        if (having.size() > 1)
            return shared::Error{shared::ErrorCode::conflict,
                                 "several sessions have a job " + options.job +
                                     ": say which with --session",
                                 {}};
        if (having.empty())
            return shared::Error{
                shared::ErrorCode::not_found, "no running job " + options.job, {}};
        sessions = having;
    }
    const Session& session = sessions->front();
    auto stopped = client.remove(path_of(session) + "/" + path_segment(options.job));
    if (!stopped) return stopped.error();
    const std::string result = text_at(*stopped, "stopped");
    if (common.json)
        write_output(stopped->dump() + "\n");
    else
        write_output("job " + visible(options.job) + ": " + visible(result) + "\n");
    return result == "gone" ? kOk : kFailed;
}

}  // namespace cli
