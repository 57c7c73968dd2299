#include <unistd.h>

#include <chrono>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/terminal.h"
#include "shared/child_process.h"

namespace cli {
namespace {

constexpr shared::Milliseconds kSignInPatience{10 * 60'000};  // a person types passwords and codes

}  // namespace

shared::Result<int> run_login(const Common& common, const std::string& host) {
    using shared::Error;
    using shared::ErrorCode;
    Client client(common.home);
    const auto known = client.get("/hosts/" + path_segment(host));
    if (!known) return known.error();
    const std::string control_path = known->value("control_path", std::string());
    if (control_path.empty()) {
        return Error{
            ErrorCode::failed,
            "no control path is known for " + host + " yet; first: albedo hosts warm " + host,
            host};
    }

    // A master in the user's own terminal: ssh asks there what it has to ask, and the daemon's
    // commands ride on it afterwards.
    shared::SpawnOptions ssh;
    ssh.argv = {"ssh", "-M", "-fN", "-o", "ControlPath=" + control_path, "-o", "ControlPersist=600",
                host};
    ssh.descriptors = {{STDIN_FILENO, 0}, {STDOUT_FILENO, 1}, {STDERR_FILENO, 2}};
    auto child = shared::ChildProcess::spawn(ssh);
    if (!child) return child.error();
    const auto ended = child->end({.ask = kSignInPatience});
    if (!ended.clean()) {
        return Error{ErrorCode::needs_auth, "ssh " + host + " ended with " + ended.text(), host};
    }
    return run_host(common, {"warm", host});
}

}  // namespace cli
