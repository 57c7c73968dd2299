// The command line of albedo-supervisor.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "shared/result.h"

namespace supervisor {

struct Options {
    std::filesystem::path home;   // absolute; --home, else $ALBEDO_HOME, else ~/.albedo
    bool foreground = false;      // --foreground: SIGHUP and Ctrl-C stop the daemon
    std::optional<int> ready_fd;  // --ready-fd: told `ready` or `error: ...` once, then closed
    std::uint16_t port = 0;       // $ALBEDO_PORT; 0: any free one
    double time_scale = 1.0;      // --time-scale: tests only; every delay times this
};

inline constexpr const char* kUsage =
    "usage: albedo-supervisor [--home DIR] [--foreground] [--ready-fd N]\n"
    "The albedo daemon. It is started by the `albedo` command; with --foreground it runs in this\n"
    "terminal until Ctrl-C. Environment: ALBEDO_HOME (~/.albedo), ALBEDO_PORT (any free one).\n"
    "For tests: --time-scale F multiplies every delay, window and deadline.\n";

/// Errors: invalid, in words for a person.
shared::Result<Options> parse_options(int argc, const char* const* argv);

}  // namespace supervisor
