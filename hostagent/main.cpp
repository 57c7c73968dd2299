// albedo-hostagent: started by the supervisor, with the control socket at descriptor 3. argv names
// the host for people who look at `ps`; what counts is the Welcome.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>

#include "hostagent/agent.h"
#include "shared/log.h"

namespace {

/// The supervisor raised the limit of open files for the daemon; what runs from here on is the
/// user's (bridges, kernels, ssh), with the limit they had. An agent itself needs few.
void restore_open_files() {
    const char* text = std::getenv("ALBEDO_SOFT_NOFILE");
    if (!text) return;
    char* end = nullptr;
    const auto soft = std::strtoull(text, &end, 10);
    rlimit limit{};
    if (end != text && *end == '\0' && soft >= 64 && ::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = std::min<rlim_t>(soft, limit.rlim_max);
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
    ::unsetenv("ALBEDO_SOFT_NOFILE");
}

}  // namespace

int main() {
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
    std::signal(SIGINT,
                SIG_IGN);  // the supervisor decides; Ctrl-C in a foreground daemon reaches all
    restore_open_files();
    if (::fcntl(shared::kControlFd, F_SETFD, FD_CLOEXEC) != 0) {
        shared::log_error("an agent is started by the supervisor");
        return 2;
    }
    try {
        hostagent::Agent agent{shared::ControlSocket(shared::UniqueFd(shared::kControlFd))};
        // Everything it started dies with the process; destructors have nothing to add.
        std::_Exit(agent.run());
    } catch (const std::exception& fault) {
        shared::log_error("agent fails", {{"why", fault.what()}});
        return 1;
    }
}
