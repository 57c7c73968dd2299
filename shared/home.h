// $ALBEDO_HOME: its layout, its lock, and the record of the daemon that runs in it.
//
// The lock decides whether a daemon runs, never a pid: daemon.json may be a crashed one's. The
// supervisor holds a flock on daemon.lock for its life; the file itself stays.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "shared/result.h"
#include "shared/unique_fd.h"

namespace shared {

/// $ALBEDO_HOME, else $HOME/.albedo, else that of the user database; absolute.
std::filesystem::path default_home();

/// Where things are. Pure.
class HomeLayout {
  public:
    explicit HomeLayout(std::filesystem::path home) : home_(std::move(home)) {}

    const std::filesystem::path& root() const { return home_; }
    std::filesystem::path lock_file() const { return home_ / "daemon.lock"; }
    std::filesystem::path record_file() const { return home_ / "daemon.json"; }
    std::filesystem::path log_file() const { return home_ / "daemon.log"; }
    std::filesystem::path config_file() const { return home_ / "config.json"; }
    std::filesystem::path database_file() const { return home_ / "albedo.db"; }
    std::filesystem::path bundle_folder() const { return home_ / "bundle"; }
    std::filesystem::path run_folder() const { return home_ / "run"; }
    std::filesystem::path memories_folder() const { return home_ / "memories"; }
    std::filesystem::path blackbox_folder() const { return home_ / "blackbox"; }

  private:
    std::filesystem::path home_;
};

/// Makes the home 0700 if it is not there. Errors: storage, with the path and the reason; also
/// when it is there and is no folder, or another user's.
Result<void> make_home(const std::filesystem::path& home);

class HomeLock {
  public:
    /// Nothing when another process holds it. Errors: storage.
    static Result<std::optional<HomeLock>> try_take(const std::filesystem::path& home);
    /// Whether some process holds it; looking does not disturb the holder.
    static bool is_held(const std::filesystem::path& home);

  private:
    explicit HomeLock(UniqueFd file) : file_(std::move(file)) {}
    UniqueFd file_;
};

struct DaemonRecord {
    pid_t pid = 0;
    std::uint16_t port = 0;
    std::string token;
    std::string version;
    std::int64_t started_wall_ms = 0;
};

/// The record on disk, believed or not; nothing when it is absent or broken.
std::optional<DaemonRecord> read_daemon_record(const std::filesystem::path& home);
/// Errors: storage.
Result<void> write_daemon_record(const std::filesystem::path& home, const DaemonRecord& record);

/// Replaces `file` (0600) by write-then-rename. Errors: storage; the old content stays.
Result<void> write_private_file(const std::filesystem::path& file, std::string_view content);

}  // namespace shared
