//   GET  /hosts/:host/agent     -> {"host", "agent": {"pid", "state", "since", "generation",
//        "restarts", "last_death", "last_death_at", "beat_age_ms"} or null, "failure"?,
//        "calls_in_flight", "p50_ms", "p99_ms", "kernels", "kernels_attached", "cells_running",
//        "command_ms"?}; p50 and p99 are bucket bounds over the api's life. With ?measure=true
//        `command_ms` is one command of its own on the host, over ssh where it is remote.
//   GET  /hosts/:host/ping      -> the agent's own facts and "ms", touching no host
//   GET  /hosts/:host/flight    -> its newest events, oldest first
//   POST /hosts/:host/restart   -> {"host", "ok", "message", "kernels", "reattached",
//        "cells_running", "ms"}: answered when every kernel that was attached is so again, or after
//        kReattachDeadline with those that are
//   POST /hosts/:host/faults {"kind": "bridge" | "ssh" | "stop" | "spin" | "agent", "confirm": HOST}
//        -> {"host", "kind"}: for stress tests; `agent` is SIGKILL. `confirm` names the host again
//   POST /hosts/:host/stop | quarantine | release | kill -> {"host", "ok", "message"}
#include "api/http/routes_agents.h"

#include <algorithm>
#include <thread>

#include "api/http/errors.h"
#include "api/http/json_codec.h"
#include "api/http/routes_hosts.h"

namespace http {

using shared::Error;
using shared::ErrorCode;
using shared::Monotonic;

namespace {
constexpr shared::Milliseconds kSteerDeadline{15'000};
constexpr shared::Milliseconds kReattachDeadline{15'000};
constexpr shared::Milliseconds kReattachLook{5};
constexpr shared::Milliseconds kPingDeadline{5'000};  // an agent that died is back long before
constexpr shared::Milliseconds kMeasureDeadline{15'000};

shared::Result<shared::Steered> steer(RouteWorld& world, const std::string& host,
                                      shared::Steering steering) {
    auto done =
        world.hosts.supervisor().steer(host, steering, Monotonic::now() + kSteerDeadline);
    if (done && !done->ok) return Error{ErrorCode::conflict, done->message, host};
    return done;
}

Response steer_host(RouteWorld& world, const Request& request, shared::Steering steering) {
    const std::string& host = request.parameter("host");
    if (auto bad = bad_host(host)) return *bad;
    auto done = steer(world, host, steering);
    if (!done) return error_response(done.error());
    return json_response({{"host", host}, {"ok", true}, {"message", done->message}});
}

/// What there is of a host's kernels. The Monitor is held.
struct Kernels {
    std::vector<sessions::SessionPtr> attached;
    std::size_t known = 0;
    std::size_t cells = 0;
};

Kernels kernels_of(RouteWorld& world, const agents::Monitor::Lock& lock, const std::string& host) {
    Kernels found;
    for (const auto& row : world.sessions.list(lock)) {
        const auto session = row.host == host ? world.sessions.find(lock, row.id) : nullptr;
        if (!session || session->link() == nullptr) continue;
        ++found.known;
        if (session->link()->state() == sessions::LinkState::attached)
            found.attached.push_back(session);
        for (const auto& [id, cell] : session->cells()) found.cells += cell->finished() ? 0 : 1;
    }
    return found;
}

Response restart_host(RouteWorld& world, const Request& request) {
    const std::string& host = request.parameter("host");
    if (auto bad = bad_host(host)) return *bad;
    Kernels before;
    std::uint64_t generation = 0;
    {
        auto lock = world.monitor.lock();
        before = kernels_of(world, lock, host);
        if (const auto* end = world.hosts.find(lock, host)) generation = end->generation();
    }
    const auto begun = Monotonic::now();
    auto done = steer(world, host, shared::Steering::restart);
    if (!done) return error_response(done.error());
    const auto attached_again = [&] {
        auto lock = world.monitor.lock();
        const auto* end = world.hosts.find(lock, host);
        if (end == nullptr || end->generation() <= generation) return std::size_t{0};
        return static_cast<std::size_t>(std::count_if(
            before.attached.begin(), before.attached.end(), [](const auto& session) {
                return session->link() != nullptr &&
                       session->link()->state() == sessions::LinkState::attached;
            }));
    };
    std::size_t again = attached_again();
    while (again < before.attached.size() && Monotonic::now() < begun + kReattachDeadline) {
        std::this_thread::sleep_for(kReattachLook);
        again = attached_again();
    }
    const std::chrono::duration<double, std::milli> took = Monotonic::now() - begun;
    return json_response({{"host", host},
                          {"ok", true},
                          {"message", done->message},
                          {"kernels", before.attached.size()},
                          {"reattached", again},
                          {"cells_running", before.cells},
                          {"ms", took.count()}});
}

bool agent_failed(RouteWorld& world, const std::string& host) {
    auto lock = world.monitor.lock();
    const auto* end = world.hosts.find(lock, host);
    return end == nullptr || !end->failure().empty();
}

/// The agent's own facts, touching no host. Where it dies meanwhile its successor is asked, since
/// the question has no effect.
Response ping_agent(RouteWorld& world, const Request& request) {
    const std::string& host = request.parameter("host");
    if (auto bad = bad_host(host)) return *bad;
    const auto asked = Monotonic::now();
    const auto deadline = asked + kPingDeadline;
    const auto ask = [&] {
        return world.hosts.call(host, shared::Ping{}, deadline, agents::WhenFull::refuse);
    };
    auto answer = ask();
    while (!answer && answer.error().code == ErrorCode::unavailable && Monotonic::now() < deadline &&
           !agent_failed(world, host))
        answer = ask();
    if (!answer) return error_response(answer.error());
    auto facts = parse_json(answer->json);
    if (!facts || !facts->is_object())
        return error_response(Error{ErrorCode::protocol, "the agent's answer is no object", host});
    (*facts)["host"] = host;
    (*facts)["ms"] =
        std::chrono::duration<double, std::milli>(Monotonic::now() - asked).count();
    return json_response(*facts);
}

Response flight_of(RouteWorld& world, const Request& request) {
    const std::string& host = request.parameter("host");
    if (auto bad = bad_host(host)) return *bad;
    auto events = world.hosts.supervisor().ask_flight(host, request_deadline());
    if (!events) return error_response(events.error());
    Json rows = Json::array();
    for (const auto& [at, text] : *events) rows.push_back({{"at", at}, {"text", text}});
    return json_response({{"host", host}, {"events", std::move(rows)}});
}

Response make_fault(RouteWorld& world, const Request& request) {
    const std::string& host = request.parameter("host");
    if (auto bad = bad_host(host)) return *bad;
    Fields fields(request.body);
    const std::string kind = fields.text("kind");
    const std::string confirm = fields.text("confirm");
    if (auto read = fields.finish(); !read) return error_response(read.error());
    if (confirm != host)
        return error_response(Error{ErrorCode::invalid, "confirm must name the host", host});
    if (kind == "agent") {
        auto killed = steer(world, host, shared::Steering::kill);
        if (!killed) return error_response(killed.error());
        return json_response({{"host", host}, {"kind", kind}});
    }
    const auto* named =
        std::find(std::begin(shared::kFaultNames), std::end(shared::kFaultNames), kind);
    if (named == std::end(shared::kFaultNames))
        return error_response(Error{ErrorCode::invalid, "there is no fault " + kind, host});
    shared::Fault fault;
    fault.kind = static_cast<shared::FaultKind>(named - std::begin(shared::kFaultNames));
    auto done = world.hosts.call(host, fault, Monotonic::now() + kPingDeadline,
                                 agents::WhenFull::refuse);
    if (!done) return error_response(done.error());
    return json_response({{"host", host}, {"kind", kind}});
}

Json process_of(RouteWorld& world, const std::string& host) {
    auto processes = world.hosts.supervisor().ask_processes(request_deadline());
    if (!processes) return nullptr;
    for (const auto& each : *processes)
        if (each.name == "agent" && each.host == host)
            return {{"pid", each.pid},
                    {"state", each.state},
                    {"since", each.since_wall_ms},
                    {"generation", each.generation},
                    {"restarts", each.restarts},
                    {"last_death", each.last_death},
                    {"last_death_at", each.last_death_wall_ms},
                    {"beat_age_ms", each.beat_age_ms}};
    return nullptr;
}

Response agent_of(RouteWorld& world, const metrics::Metrics& counted, const Request& request) {
    const std::string& host = request.parameter("host");
    if (auto bad = bad_host(host)) return *bad;
    Json answer = {{"host", host}, {"agent", process_of(world, host)}};
    {
        auto lock = world.monitor.lock();
        const auto kernels = kernels_of(world, lock, host);
        answer["kernels"] = kernels.known;
        answer["kernels_attached"] = kernels.attached.size();
        answer["cells_running"] = kernels.cells;
        if (const auto* end = world.hosts.find(lock, host)) {
            answer["calls_in_flight"] = end->calls_in_flight();
            if (!end->failure().empty()) answer["failure"] = end->failure();
        }
    }
    for (const auto& [name, q] : {std::pair<const char*, double>{"p50_ms", 0.5}, {"p99_ms", 0.99}})
        answer[name] = counted.quantile(metrics::Time::host_calls, {host}, q) * 1000;
    if (request.query("measure").value_or("false") == "true") {
        shared::Browse look;
        look.fresh = true;
        look.request = R"({"op":"stat","path":"/"})";
        const auto begun = Monotonic::now();
        auto answered = world.hosts.call(host, look, begun + kMeasureDeadline,
                                         agents::WhenFull::refuse);
        if (!answered) return error_response(answered.error());
        const std::chrono::duration<double, std::milli> took = Monotonic::now() - begun;
        answer["command_ms"] = took.count();
    }
    return json_response(answer);
}
}  // namespace

void add_agent_routes(Server& server, RouteWorld& world, const metrics::Metrics& counted) {
    const auto bind = [&world](auto handler) {
        return [&world, handler](const Request& request) { return handler(world, request); };
    };
    const auto steered = [&world](shared::Steering steering) {
        return [&world, steering](const Request& request) {
            return steer_host(world, request, steering);
        };
    };
    server.route("GET", "/hosts/:host/agent", [&world, &counted](const Request& request) {
        return agent_of(world, counted, request);
    });
    server.route("GET", "/hosts/:host/ping", bind(ping_agent));
    server.route("GET", "/hosts/:host/flight", bind(flight_of));
    server.route("POST", "/hosts/:host/faults", bind(make_fault));
    server.route("POST", "/hosts/:host/restart", bind(restart_host));
    server.route("POST", "/hosts/:host/stop", steered(shared::Steering::stop));
    server.route("POST", "/hosts/:host/quarantine", steered(shared::Steering::quarantine));
    server.route("POST", "/hosts/:host/release", steered(shared::Steering::release));
    server.route("POST", "/hosts/:host/kill", steered(shared::Steering::kill));
}

}  // namespace http
