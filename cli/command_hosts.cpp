#include "cli/client.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/json_fields.h"
#include "cli/process_memory.h"
#include "cli/terminal.h"
#include "shared/clock.h"

namespace cli {
namespace {

std::string host_path(const std::string& host) {
    return "/hosts/" + path_segment(host);
}

/// The command that helps with a host in this state; empty when there is nothing to do.
std::string next_step(const std::string& host, const std::string& state) {
    if (state == "needs_auth") return "albedo hosts login " + host;
    if (state == "unreachable")
        return "ssh " + host + " true    (then: albedo hosts warm " + host + ")";
    if (state == "unsupported")
        return "install python >= 3.11 there    (then: albedo hosts warm " + host + ")";
    if (state == "quarantined") return "albedo hosts release " + host;
    return "";
}

std::string describe(const Json& host) {
    std::string out;
    for (const auto& [key, value] : host.items()) {
        if (value.is_null() || (value.is_string() && value.get<std::string>().empty())) continue;
        out += key + ": " + visible(value.is_string() ? value.get<std::string>() : value.dump()) +
               "\n";
    }
    const std::string next = next_step(text_at(host, "host"), text_at(host, "state"));
    return next.empty() ? out : out + "next: " + visible(next) + "\n";
}

/// A host's last verdict and its agent's newest events, oldest first.
shared::Result<int> why(const Common& common, Client& client, const std::string& host) {
    auto known = client.get(host_path(host));
    if (!known) return known.error();
    const auto flight = client.get(host_path(host) + "/flight");
    if (common.json) {
        (*known)["flight"] = flight ? *flight : Json();
        write_output(known->dump() + "\n");
        return kOk;
    }
    std::string out = describe(*known);
    if (flight) {
        const Json& events = flight->is_object() ? flight->value("events", Json::array()) : *flight;
        out += events.empty() ? "" : "\nwhat its agent did, newest last:\n";
        for (const auto& event : events) {
            out += "  " + visible(event.is_object() ? text_at(event, "text") : event.dump()) + "\n";
        }
    }
    write_output(out);
    return kOk;
}

std::string milliseconds(const Json& object, const char* key) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f ms", object.value(key, 0.0));
    return text;
}

/// What is known of the host, then of its agent.
shared::Result<int> show(const Common& common, Client& client, const std::string& host) {
    auto known = client.get(host_path(host));
    if (!known) return known.error();
    auto agent = client.get(host_path(host) + "/agent");
    if (!agent) return agent.error();
    const Json& process = (*agent)["agent"];
    const int pid = process.is_object() ? process.value("pid", 0) : 0;
    if (const auto pss = pid > 0 ? pss_kib(pid) : std::nullopt)
        (*agent)["agent"]["pss_kib"] = *pss;
    if (common.json) {
        for (const auto& [key, value] : agent->items()) (*known)[key] = value;
        write_output(known->dump() + "\n");
        return kOk;
    }
    known->erase("agent");
    std::string out = describe(*known);
    if (!process.is_object()) {
        out += "agent: none; it is started when it is needed\n";
    } else {
        out += "agent: pid " + std::to_string(pid) + ", " + visible(text_at(process, "state")) +
               " since " +
               duration_text(shared::wall_ms() - process.value("since", std::int64_t{0})) +
               ", generation " + std::to_string(process.value("generation", 0)) + ", " +
               std::to_string(process.value("restarts", 0)) + " restarts";
        if (process.contains("pss_kib"))
            out += ", " + std::to_string(process.value("pss_kib", std::int64_t{0})) + " KiB";
        out += "\n";
        if (const std::string death = text_at(process, "last_death"); !death.empty())
            out += "last death: " + visible(death) + ", " +
                   duration_text(shared::wall_ms() -
                                 process.value("last_death_at", std::int64_t{0})) +
                   " ago\n";
    }
    out += "kernels: " + std::to_string(agent->value("kernels", 0)) + ", attached " +
           std::to_string(agent->value("kernels_attached", 0)) + ", cells running " +
           std::to_string(agent->value("cells_running", 0)) + "\n";
    out += "calls: " + std::to_string(agent->value("calls_in_flight", 0)) + " in flight, p50 <= " +
           milliseconds(*agent, "p50_ms") + ", p99 <= " + milliseconds(*agent, "p99_ms") + "\n";
    write_output(out);
    return kOk;
}

/// One host, or each that has an agent now.
shared::Result<int> restart(const Common& common, Client& client, const std::string& host) {
    std::vector<std::string> hosts{host};
    if (host.empty()) {
        const auto health = client.get("/health");
        if (!health) return health.error();
        hosts.clear();
        for (const auto& process : health->value("processes", Json::array()))
            if (text_at(process, "name") == "agent") hosts.push_back(text_at(process, "host"));
    }
    Json answers = Json::array();
    bool whole = true;
    for (const auto& each : hosts) {
        Progress progress([&] { return each + ": restarting"; });
        auto answer =
            client.post(host_path(each) + "/restart", Json::object(), Repeat::only_unsent);
        progress.end();
        if (!answer) {
            if (!host.empty()) return answer.error();
            answer = Json{{"host", each}, {"ok", false}, {"error", answer.error().message}};
        }
        whole = whole && answer->value("ok", false) &&
                answer->value("reattached", 0) >= answer->value("kernels", 0);
        answers.push_back(std::move(*answer));
    }
    if (common.json) {
        write_output((host.empty() ? answers : answers.at(0)).dump() + "\n");
        return whole ? kOk : kFailed;
    }
    std::string out;
    for (const auto& answer : answers) {
        out += visible(text_at(answer, "host")) + ": ";
        if (!answer.value("ok", false))
            out += visible(text_at(answer, "error")) + "\n";
        else
            out += "restarted in " + milliseconds(answer, "ms") + ", " +
                   std::to_string(answer.value("reattached", 0)) + " of " +
                   std::to_string(answer.value("kernels", 0)) + " kernels attached again, " +
                   std::to_string(answer.value("cells_running", 0)) + " cells went on\n";
    }
    write_output(out.empty() ? "no host has an agent now\n" : out);
    return whole ? kOk : kFailed;
}

}  // namespace

shared::Result<int> run_hosts(const Common& common) {
    Client client(common.home);
    const auto listed = client.get("/hosts");
    if (!listed) return listed.error();
    if (common.json) {
        write_output(listed->dump() + "\n");
        return kOk;
    }
    std::vector<std::vector<std::string>> rows{{"HOST", "SOURCE", "STATE", "DETAIL"}};
    for (const auto& host : listed->value("hosts", Json::array())) {
        rows.push_back({text_at(host, "host"), text_at(host, "source"),
                        host.contains("state") ? text_at(host, "state") : "not asked yet",
                        text_at(host, "detail")});
    }
    write_output(rows.size() > 1 ? table(rows)
                                 : "no hosts yet: none in ~/.ssh/config, none in a session\n");
    return kOk;
}

shared::Result<int> run_host(const Common& common, const HostOptions& options) {
    Client client(common.home);
    if (options.action == "why") return why(common, client, options.host);
    if (options.action == "show") return show(common, client, options.host);
    if (options.action == "restart") return restart(common, client, options.host);
    Progress progress([&] {
        Client other(common.home);
        const auto known = other.get(host_path(options.host), shared::Milliseconds(2'000));
        const std::string step = known ? text_at(*known, "step") : "";
        return options.host + ": " + (step.empty() ? options.action : step);
    });
    const auto answer =
        client.post(host_path(options.host) + "/" + options.action, Json::object(),
                    options.action == "warm" ? Repeat::freely : Repeat::only_unsent);
    progress.end();
    if (!answer) return answer.error();
    if (common.json) {
        write_output(answer->dump() + "\n");
    } else if (answer->is_object() && !answer->empty()) {
        write_output(describe(*answer));
    } else {
        write_output(visible(options.host) + ": " + options.action + " done\n");
    }
    const std::string state = answer->is_object() ? text_at(*answer, "state") : "";
    const bool not_ready =
        state == "needs_auth" || state == "unreachable" || state == "unsupported";
    return options.action == "warm" && not_ready ? kHostNotReady : kOk;
}

}  // namespace cli
