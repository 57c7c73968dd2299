// The memory of workspaces as files below $ALBEDO_HOME/memories: `<slug>/memory.md` and
// `<slug>/journal/<date>.md`. Knows folders and bytes, nothing of kernels, links or SQL.
//
// An append is applied once over crashes by the caller's protocol: plan() first, the plan into the
// store, then apply(), which is idempotent: it looks whether the bytes are there already.
// Blocking (disk); callable from any one thread at a time per workspace.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "shared/result.h"

namespace memory {

inline constexpr std::size_t kMaxMemoryBytes = 4 << 20;  // of one file: it must fit in a frame

/// What an append is about to do; everything needed to do it, or to see that it is done.
struct AppendPlan {
    std::string file;               // relative to the memories folder
    std::uint64_t size_before = 0;  // bytes
    std::string bytes;
};

class MemoryFiles {
  public:
    explicit MemoryFiles(std::filesystem::path memories) : memories_(std::move(memories)) {}

    static std::string memory_file(std::string_view slug);
    static std::string journal_file(std::string_view slug, std::string_view date);  // "2026-12-01"

    /// The whole file; empty when there is none. Errors: storage, too_large.
    shared::Result<std::string> read(const std::string& file) const;
    /// Replaces the file by write-then-rename, synced. Errors: storage, too_large; the old stays.
    shared::Result<void> save(const std::string& file, std::string_view content) const;
    /// `text` and a newline, on a line of its own. Errors: storage, too_large.
    shared::Result<AppendPlan> plan(const std::string& file, std::string_view text) const;
    /// Appends and syncs, unless the bytes stand at or after `size_before` already.
    /// Errors: storage; a part may have been written, which the next apply() completes.
    shared::Result<void> apply(const AppendPlan& plan) const;

  private:
    std::filesystem::path memories_;
};

}  // namespace memory
