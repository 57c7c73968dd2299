#include "cli/client.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/terminal.h"

namespace cli {

shared::Result<int> run_start(const Common& common) {
    Progress progress([] { return std::string("starting the daemon"); });
    Client client(common.home);
    const auto found = client.connect();
    if (!found) return found.error();
    progress.end();
    const auto& address = found->address;
    if (common.json) {
        write_output(Json{{"pid", address.pid},
                          {"port", address.port},
                          {"home", common.home.string()},
                          {"started", found->started_here}}
                         .dump() +
                     "\n");
        return kOk;
    }
    write_output(
        std::string("albedo ") + (found->started_here ? "started" : "runs") + ": pid " +
        std::to_string(address.pid) + ", http://127.0.0.1:" + std::to_string(address.port) +
        ", home " + visible(common.home.string()) +
        "\n\n"
        "  albedo exec '1+1'                a Python kernel for this folder; it keeps its names\n"
        "  albedo exec HOST:/folder '1+1'   the same on any host your ssh reaches\n"
        "  albedo sessions                  what there is\n"
        "  albedo shutdown                  stops the daemon; kernels stay\n");
    return kOk;
}

}  // namespace cli
