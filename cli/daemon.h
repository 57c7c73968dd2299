// Finding the daemon of a home, or starting it. What a person's command stands on.
//
// 1. daemon.json counts only while daemon.lock is held and the pid in it lives: a SIGKILLed daemon
//    leaves the file behind, and a dying child of it may still listen on the port named there.
// 2. While the lock is held without a usable file, a daemon is starting or stopping: wait for it.
// 3. While nobody holds the lock, spawn `albedo-supervisor` with a pipe, detached from this
//    terminal and its output; on the pipe it says `ready` or `error: ...`. Of two spawned at once
//    one gets the lock; the other sees that and ends, and both callers come back to step 1.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "shared/clock.h"
#include "shared/result.h"

namespace cli {

inline constexpr shared::Milliseconds kDaemonStartDeadline{60'000};

struct DaemonAddress {
    int pid = 0;
    std::uint16_t port = 0;
    std::string token;
};

struct FoundDaemon {
    DaemonAddress address;
    bool started_here = false;
};

/// The daemon that runs for `home` right now, without waiting or starting anything.
std::optional<DaemonAddress> running_daemon(const std::filesystem::path& home);

/// The daemon of `home`, started if there is none. Blocks up to kDaemonStartDeadline.
/// Errors: unavailable, with the supervisor's reason and the log's path.
shared::Result<FoundDaemon> ensure_daemon(const std::filesystem::path& home);

/// Waits until no daemon holds `home`; false at the deadline.
bool wait_until_stopped(const std::filesystem::path& home, shared::Milliseconds patience);

}  // namespace cli
