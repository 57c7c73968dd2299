#include "cli/client.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/json_fields.h"
#include "cli/terminal.h"

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
    Progress progress([&] {
        Client other(common.home);
        const auto known = other.get(host_path(options.host), shared::Milliseconds(2'000));
        const std::string step = known ? text_at(*known, "step") : "";
        return options.host + ": " + (step.empty() ? options.action : step);
    });
    const auto answer =
        options.action == "show"
            ? client.get(host_path(options.host))
            : client.post(host_path(options.host) + "/" + options.action, Json::object(),
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
