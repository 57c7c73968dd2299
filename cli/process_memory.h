// What a process of ours costs, from /proc. Nothing else is read there.
#pragma once

#include <cstdint>
#include <optional>

namespace cli {

/// Proportional set size in KiB; absent when the process is gone or another user's.
std::optional<std::int64_t> pss_kib(int pid);

}  // namespace cli
