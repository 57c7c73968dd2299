// How the bundle gets to a host: one command that unpacks it beside its place and renames it there.
// Pure: the program, its input, the reading of its answer.
//
// A folder named by the digest that exists is complete. Two stagers at once are fine: the first
// rename wins. What is cut off in the middle leaves a `.part.` folder at most, which the next
// staging removes once it is old; bundles no run directory and no process names go the same way.
#pragma once

#include <string>
#include <string_view>

#include "shared/clock.h"
#include "shared/result.h"

namespace hostagent {

inline constexpr shared::Milliseconds kStageDeadline{120'000};
inline constexpr std::size_t kDigestCharacters = 16;  // of the digest, in folder names

struct StagePlan {
    std::string root;    // absolute folder of bundles on the host
    std::string runs;    // absolute folder of run directories on the host
    std::string digest;  // the first kDigestCharacters of the bundle's
};

/// The name of the folder that is unpacked into, below the root; new at each call.
std::string part_name(const StagePlan& plan);

/// What goes to the loader's stdin.
std::string stage_input(const StagePlan& plan, std::string_view tar);

/// Errors: unsupported, with the host's own words (disk full, read-only, quota).
shared::Result<void> read_staged(std::string_view answer, std::string_view words);

}  // namespace hostagent
