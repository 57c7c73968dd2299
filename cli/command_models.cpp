#include "cli/client.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/json_fields.h"
#include "cli/terminal.h"

namespace cli {
namespace {

std::string models_table(const Json& config) {
    const std::string active = text_at(config, "active");
    std::vector<std::vector<std::string>> rows{{"", "NAME", "MODEL", "PROTOCOL", "ADDRESS", "KEY"}};
    for (const Json& each : config.value("providers", Json::array())) {
        const std::string name = text_at(each, "name");
        const std::string problem = text_at(each, "problem");
        rows.push_back({name == active ? "*" : "", name, text_at(each, "model"),
                        text_at(each, "protocol"), text_at(each, "baseUrl"),
                        problem.empty() ? text_at(each, "key") : problem});
    }
    return table(rows);
}

}  // namespace

shared::Result<int> run_models(const Common& common) {
    Client client(common.home);
    const auto config = client.get("/config");
    if (!config) return config.error();
    if (common.json) {
        write_output(config->dump() + "\n");
        return kOk;
    }
    const std::string error = text_at(*config, "error");
    if (!error.empty()) return shared::Error{shared::ErrorCode::invalid, error, ""};
    write_output(models_table(*config));
    return kOk;
}

shared::Result<int> run_config_check(const Common& common) {
    Client client(common.home);
    const auto config = client.get("/config");
    if (!config) return config.error();
    const bool ok = config->value("ok", false);
    if (common.json) {
        write_output(config->dump() + "\n");
        return ok ? kOk : kFailed;
    }
    std::string report = visible(text_at(*config, "path")) + ": " + (ok ? "ok" : "not ok") + "\n";
    const std::string error = text_at(*config, "error");
    if (!error.empty()) report += "  " + visible(error) + "\n";
    for (const Json& warning : config->value("warnings", Json::array()))
        if (warning.is_string()) report += "  " + visible(warning.get<std::string>()) + "\n";
    for (const Json& each : config->value("providers", Json::array()))
        if (const std::string problem = text_at(each, "problem"); !problem.empty())
            report += "  " + visible(text_at(each, "name")) + ": " + visible(problem) + "\n";
    write_output(report);
    return ok ? kOk : kFailed;
}

}  // namespace cli
