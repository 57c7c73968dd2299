#include "cli/client.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/terminal.h"

namespace cli {
namespace {

constexpr shared::Milliseconds kStopPatience{10'000};  // the daemon's own hard end is at 7 s

}  // namespace

shared::Result<int> run_shutdown(const Common& common) {
    const auto address = running_daemon(common.home);
    if (address) {
        Progress progress([] { return std::string("stopping the daemon"); });
        Client client(common.home);
        // A dropped connection is an answer too: what counts is that it ends.
        const auto asked = client.post("/shutdown", Json::object(), Repeat::only_unsent);
        if (!wait_until_stopped(common.home, kStopPatience)) {
            if (!asked) return asked.error();
            return shared::Error{shared::ErrorCode::timed_out,
                                 "the daemon (pid " + std::to_string(address->pid) +
                                     ") has not stopped; see: albedo logs",
                                 ""};
        }
    }
    if (common.json) {
        write_output(Json{{"stopped", address.has_value()}}.dump() + "\n");
    } else {
        write_output(address ? "the daemon stopped; kernels stay until their grace ends\n"
                             : "no daemon runs for " + visible(common.home.string()) + "\n");
    }
    return kOk;
}

}  // namespace cli
