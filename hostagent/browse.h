// Questions about folders of a host, when no bridge is there to carry them: a command of its own.
// Pure: the input and the reading of the answer.
#pragma once

#include <string>
#include <string_view>

#include "shared/clock.h"
#include "shared/result.h"

namespace hostagent {

inline constexpr shared::Milliseconds kBrowseDeadline{20'000};

/// What goes to the loader's stdin. `folder` is the bundle's; empty: only what needs no bundle can
/// be asked (`stat`). `request` is the asker's JSON object.
std::string browse_input(const std::string& folder, std::string_view request);

/// Whether a request can be answered by a host that has no bundle.
bool needs_no_bundle(std::string_view request);

/// The request as a `call` of the bridge: with `id`. Errors: invalid, no JSON object.
shared::Result<std::string> browse_call(std::string_view request, std::uint64_t id);

/// The JSON of the one-shot's answer. Errors: failed, with what came instead.
shared::Result<std::string> read_browse(std::string_view answer, std::string_view words);

}  // namespace hostagent
