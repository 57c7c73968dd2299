#include "api/http/routes_hosts.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "api/http/errors.h"
#include "api/workspaces/location.h"
#include "api/workspaces/ssh_hosts.h"

namespace http {

using shared::Error;
using shared::ErrorCode;
using shared::HostState;

namespace {
constexpr shared::Milliseconds kWarmDeadline{60'000};
constexpr shared::Milliseconds kLookDeadline{100};  // what is cached answers within this

/// Recent use weighs 4 within the hour and half of it past a day, a week, a month.
double weight(std::int64_t age_ms) {
    constexpr std::int64_t kHour = 3'600'000;
    if (age_ms < kHour) return 4;
    double left = 2;
    for (const std::int64_t bound : {24 * kHour, 7 * 24 * kHour, 30 * 24 * kHour})
        if (age_ms > bound) left /= 2;
    return left;
}

Response list_hosts(RouteWorld& world, const Request&) {
    const auto configured = workspaces::list_ssh_hosts(world.user_home);
    Json hosts = Json::array();
    std::set<std::string> listed;
    auto lock = world.monitor.lock();
    const auto add = [&](const std::string& host, const char* source) {
        if (!listed.insert(host).second) return;
        const auto* end = world.hosts.find(lock, host);
        Json row = host_json(host, end != nullptr ? end->report() : shared::HostReport{});
        row["label"] = host;
        row["source"] = source;
        hosts.push_back(std::move(row));
    };
    std::map<std::string, double> recent;
    const auto now = shared::wall_ms();
    for (const auto& row : world.sessions.list(lock))
        if (row.host != shared::kLocalHost) recent[row.host] += weight(now - row.used_ms);
    std::vector<std::pair<std::string, double>> order(recent.begin(), recent.end());
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    for (const auto& [host, used] : order) add(host, "recent");
    for (const auto& host : configured.hosts) add(host, "config");
    lock.unlock();
    Json answer = {{"hosts", std::move(hosts)}};
    if (!configured.problems.empty()) {
        Json problems = Json::array();
        for (const auto& problem : configured.problems)
            problems.push_back(
                {{"file", problem.file}, {"line", problem.line}, {"what", problem.what}});
        answer["problems"] = std::move(problems);
    }
    return json_response(answer);
}

/// What is known now; one that is stale or missing is looked at behind the answer.
Response get_host(RouteWorld& world, const Request& request) {
    const std::string& host = request.parameter("host");
    if (auto bad = bad_host(host)) return *bad;
    (void)world.hosts.probe(host, false, shared::Monotonic::now() + kLookDeadline,
                            agents::WhenFull::refuse);
    auto lock = world.monitor.lock();
    const auto* end = world.hosts.find(lock, host);
    if (end == nullptr) return error_response(Error{ErrorCode::overloaded, "too many hosts", host});
    Json answer = host_json(host, end->report());
    if (!end->known()) answer["state"] = "warming";
    if (!end->failure().empty()) answer["agent"] = {{"state", "failed"}, {"cause", end->failure()}};
    return json_response(answer);
}

Response warm_host(RouteWorld& world, const Request& request) {
    const std::string& host = request.parameter("host");
    if (auto bad = bad_host(host)) return *bad;
    auto report = world.hosts.probe(host, true, shared::Monotonic::now() + kWarmDeadline,
                                    agents::WhenFull::refuse);
    if (!report) return error_response(report.error());
    return json_response(host_json(host, *report));
}

}  // namespace

std::optional<Response> bad_host(const std::string& host) {
    if (host == shared::kLocalHost) return std::nullopt;
    if (auto checked = workspaces::check_target(host); !checked)
        return error_response(checked.error());
    return std::nullopt;
}

Json host_json(const std::string& host, const shared::HostReport& report) {
    Json answer = {{"host", host}};
    if (report.state != HostState::unknown) answer["state"] = shared::to_string(report.state);
    const std::string step = shared::to_string(report.step);
    for (const auto& [name, text] : {std::pair<const char*, const std::string&>{"step", step},
                                     {"detail", report.detail},
                                     {"os", report.os},
                                     {"arch", report.arch},
                                     {"home", report.home},
                                     {"hostname", report.hostname},
                                     {"user", report.user},
                                     {"python", report.python},
                                     {"python_version", report.python_version},
                                     {"digest", report.digest},
                                     {"control_path", report.control_path}})
        if (!text.empty()) answer[name] = text;
    if (report.checked_wall_ms > 0) answer["checked_at"] = report.checked_wall_ms;
    return answer;
}

void add_host_routes(Server& server, RouteWorld& world) {
    const auto bind = [&world](auto handler) {
        return [&world, handler](const Request& request) { return handler(world, request); };
    };
    server.route("GET", "/hosts", bind(list_hosts));
    server.route("GET", "/hosts/:host", bind(get_host));
    server.route("POST", "/hosts/:host/warm", bind(warm_host));
}

}  // namespace http
