// What the user's own ssh config says about a host, read from the answer of `ssh -G`, and where our
// control connections live. The parsing is pure; RuntimeFolder alone touches the file system.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "shared/result.h"

namespace hostagent {

struct SshConfig {
    std::string control_path;     // expanded by ssh; empty when the user has none
    std::string control_persist;  // as the user wrote it; empty when none, "no" or false
    bool has_keep_alives = false;
};

/// Never fails: an answer that cannot be read says nothing. Debian's client reports an interval of
/// 300 under BatchMode for one that nobody set, so 0 and 300 both count as unset.
SshConfig parse_ssh_config(std::string_view answer);

/// sun_path holds 107 bytes, and ssh binds PATH.XXXXXXXXXXXXXXXX first: longer ones fail.
inline constexpr std::size_t kMaxControlPathBytes = 90;

/// A user's control path that can work: short enough, absolute.
bool is_usable_control_path(const std::string& expanded);

/// A private folder for control sockets, short enough for sun_path: $XDG_RUNTIME_DIR/albedo, else
/// /tmp/albedo-UID if it is a folder of ours with mode 0700, else a fresh one whose name is kept in
/// a file under `albedo_home`. Errors: storage.
shared::Result<std::filesystem::path> runtime_folder(const std::filesystem::path& albedo_home);

/// A mark that changes when a file of the user's ssh config or keys does, taken from their times.
std::string config_stamp();

}  // namespace hostagent
