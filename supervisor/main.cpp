// albedo-supervisor: reads its command line, takes the home, and runs the one loop.

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>

#include "shared/home.h"
#include "shared/log.h"
#include "shared/unique_fd.h"
#include "supervisor/home.h"
#include "supervisor/options.h"
#include "supervisor/supervisor.h"

namespace {

// Tells whoever started us, once, in one line or more, and closes the pipe.
void tell(shared::UniqueFd& ready, const std::string& error) {
    const std::string words = error.empty() ? "ready\n" : "error: " + error + "\n";
    if (ready && write(ready.get(), words.data(), words.size()) < 0) {
        shared::log_warning("nobody listens at --ready-fd");
    }
    ready.reset();
}

// The user's own soft limit; ours goes up to the hard one, for 512 agents and many connections.
std::uint64_t raise_nofile() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    const auto before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) shared::log_warning("cannot raise RLIMIT_NOFILE");
    return before;
}

int run(const supervisor::Options& options, shared::UniqueFd& ready) {
    const auto timing = supervisor::Timing{}.scaled(options.time_scale);
    auto home = supervisor::Home::take(options.home, timing.lock_patience);
    if (!home) {
        tell(ready, home.error().message);
        std::fprintf(stderr, "albedo-supervisor: %s\n", home.error().message.c_str());
        return 1;
    }
    if (!*home) {
        // Another daemon has this home. That is what the caller wanted, if it can be used already.
        if (shared::read_daemon_record(options.home)) tell(ready, "");
        return 0;
    }
    const auto& layout = (*home)->layout();
    shared::open_log({.file = layout.log_file(), .process = "supervisor"});
    supervisor::SupervisorSetup setup{.timing = timing,
                                      .foreground = options.foreground,
                                      .port = options.port,
                                      .soft_nofile = raise_nofile(),
                                      .report = {}};
    setup.report = [&](const std::string& error) {
        tell(ready, error.empty() ? "" : error + "\nlog: " + layout.log_file().string());
        if (!options.foreground) return;
        if (error.empty()) {
            std::fprintf(stderr, "albedo daemon ready, home %s\n", options.home.c_str());
        } else {
            std::fprintf(stderr, "albedo-supervisor: %s\n", error.c_str());
        }
    };
    supervisor::Supervisor daemon(**home, std::move(setup));
    return daemon.run();
}

}  // namespace

int main(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);
    if (argc == 2 && (std::string_view(argv[1]) == "--help" || std::string_view(argv[1]) == "-h")) {
        std::fputs(supervisor::kUsage, stdout);
        return 0;
    }
    auto options = supervisor::parse_options(argc, argv);
    if (!options) {
        std::fprintf(stderr, "albedo-supervisor: %s\n%s", options.error().message.c_str(),
                     supervisor::kUsage);
        return 2;
    }
    shared::UniqueFd ready(options->ready_fd.value_or(-1));
    if (ready && fcntl(ready.get(), F_SETFD, FD_CLOEXEC) != 0) {
        std::fprintf(stderr, "albedo-supervisor: --ready-fd: no such descriptor\n");
        return 2;
    }
    try {
        return run(*options, ready);
    } catch (const std::exception& fault) {
        shared::log_error("supervisor failed", {{"error", fault.what()}});
        tell(ready, fault.what());
        std::fprintf(stderr, "albedo-supervisor: %s\n", fault.what());
        return 1;
    }
}
