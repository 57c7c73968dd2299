#include "cli/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <thread>

#include "shared/child_process.h"
#include "shared/home.h"
#include "shared/unique_fd.h"

namespace cli {
namespace {

using shared::Error;
using shared::ErrorCode;
using shared::Milliseconds;
using shared::Monotonic;
using shared::TimePoint;

constexpr Milliseconds kLookAgain{20};  // while another process starts or stops the daemon
constexpr int kReadyFd = 3;             // the pipe's number in the supervisor
constexpr shared::EndPlan kSilentEnd{.ask = Milliseconds{2'000}, .terminate = Milliseconds{8'000}};
constexpr std::size_t kMaxReasonBytes = 16 * 1024;

/// `reason` may name the log already.
Error cannot_start(const std::filesystem::path& home, const std::string& reason) {
    const std::string log = shared::HomeLayout(home).log_file().string();
    const bool named = reason.find(log) != std::string::npos;
    return {ErrorCode::unavailable,
            "the daemon cannot start: " + reason + (named ? "" : "\nlog: " + log), ""};
}

/// What stands on the pipe until its end or the deadline.
std::string read_all(int fd, TimePoint deadline) {
    std::string text;
    while (text.size() < kMaxReasonBytes) {
        const auto left = std::chrono::ceil<Milliseconds>(deadline - Monotonic::now());
        pollfd watched{fd, POLLIN, 0};
        const int ready = left.count() > 0 ? poll(&watched, 1, static_cast<int>(left.count())) : 0;
        if (ready < 0 && errno == EINTR) continue;
        char piece[1024];
        const ssize_t got = ready > 0 ? read(fd, piece, sizeof piece) : 0;
        if (got <= 0) break;
        text.append(piece, static_cast<std::size_t>(got));
    }
    return text;
}

/// Starts a supervisor and hears what it says: it is ready, or another holds the home.
shared::Result<void> spawn_supervisor(const std::filesystem::path& home, TimePoint deadline) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        throw std::system_error(errno, std::generic_category(), "pipe2");
    }
    const shared::UniqueFd reader(ends[0]);
    shared::UniqueFd writer(ends[1]);

    shared::SpawnOptions options;
    options.argv = {shared::sibling_program("albedo-supervisor"), "--home", home.string(),
                    "--ready-fd", std::to_string(kReadyFd)};
    options.working_folder = "/";
    options.descriptors = {{writer.get(), kReadyFd}};
    options.dies_with_parent = false;
    options.own_session = true;
    auto child = shared::ChildProcess::spawn(options);
    if (!child) return cannot_start(home, child.error().message);
    writer.reset();

    const std::string said = read_all(reader.get(), deadline);
    constexpr std::string_view kError = "error: ";
    if (said.starts_with(kError)) {
        std::string reason = said.substr(kError.size());
        while (!reason.empty() && reason.back() == '\n') reason.pop_back();
        return cannot_start(home, reason);
    }
    if (said.starts_with("ready")) {
        child->detach();
        return {};
    }
    // Without a word it ends by itself at once: cleanly when another daemon holds the home.
    const auto ended = child->end(kSilentEnd);
    if (!ended.clean()) {
        return cannot_start(home, "albedo-supervisor ended without a reason, " + ended.text());
    }
    return {};
}

}  // namespace

std::optional<DaemonAddress> running_daemon(const std::filesystem::path& home) {
    if (!shared::HomeLock::is_held(home)) return std::nullopt;
    const auto record = shared::read_daemon_record(home);
    // A supervisor that has just taken the lock may not yet have removed its predecessor's file.
    if (!record || (kill(record->pid, 0) != 0 && errno == ESRCH)) return std::nullopt;
    return DaemonAddress{record->pid, record->port, record->token};
}

shared::Result<FoundDaemon> ensure_daemon(const std::filesystem::path& home) {
    const TimePoint deadline = Monotonic::now() + kDaemonStartDeadline;
    bool spawned = false;
    while (true) {
        if (auto address = running_daemon(home)) return FoundDaemon{*address, spawned};
        if (Monotonic::now() >= deadline) {
            return cannot_start(home, "another albedo-supervisor holds the home and is not ready");
        }
        if (shared::HomeLock::is_held(home)) {
            std::this_thread::sleep_for(kLookAgain);
        } else {
            if (auto started = spawn_supervisor(home, deadline); !started) return started.error();
            spawned = true;
        }
    }
}

bool wait_until_stopped(const std::filesystem::path& home, Milliseconds patience) {
    const TimePoint deadline = Monotonic::now() + patience;
    while (shared::HomeLock::is_held(home)) {
        if (Monotonic::now() >= deadline) return false;
        std::this_thread::sleep_for(kLookAgain);
    }
    return true;
}

}  // namespace cli
