#include "cli/client.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/json_fields.h"
#include "cli/process_memory.h"
#include "cli/terminal.h"
#include "shared/clock.h"

namespace cli {
namespace {

std::int64_t number_at(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number() ? found->get<std::int64_t>() : 0;
}

std::string memory_text(std::int64_t kib) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(kib) / 1024);
    return text;
}

}  // namespace

shared::Result<int> run_status(const Common& common) {
    Client client(common.home);
    const auto found = client.connect();
    if (!found) return found.error();
    auto health = client.get("/health");
    if (!health) return health.error();

    Json processes = health->value("processes", Json::array());
    std::vector<std::vector<std::string>> rows{
        {"PROCESS", "HOST", "PID", "STATE", "UP", "RESTARTS", "MEMORY", "LAST DEATH"}};
    for (auto& process : processes) {
        const auto pid = static_cast<int>(number_at(process, "pid"));
        std::string memory = "-";
        if (const auto pss = pid > 0 ? pss_kib(pid) : std::nullopt) {
            process["pss_kib"] = *pss;
            memory = memory_text(*pss);
        }
        const auto since = number_at(process, "since_wall_ms");
        rows.push_back({text_at(process, "name"), text_at(process, "host"),
                        pid > 0 ? std::to_string(pid) : "-", text_at(process, "state"),
                        since > 0 ? duration_text(shared::wall_ms() - since) : "-",
                        std::to_string(number_at(process, "restarts")), memory,
                        text_at(process, "last_death")});
    }
    if (common.json) {
        (*health)["processes"] = processes;
        (*health)["pid"] = found->address.pid;
        (*health)["port"] = found->address.port;
        (*health)["home"] = common.home.string();
        write_output(health->dump() + "\n");
        return kOk;
    }
    write_output("albedo " + visible(text_at(*health, "version")) + ": pid " +
                 std::to_string(found->address.pid) +
                 ", http://127.0.0.1:" + std::to_string(found->address.port) + ", home " +
                 visible(common.home.string()) + "\n\n" + table(rows));
    return kOk;
}

}  // namespace cli
