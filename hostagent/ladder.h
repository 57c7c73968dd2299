// Ending a kernel on its host: albedo_signal.py there, over the transport and never on this machine
// for another one. Pure: the request and the reading of the answer.
#pragma once

#include <string>
#include <string_view>

#include "shared/clock.h"
#include "shared/result.h"

namespace hostagent {

/// The ladder itself takes less than 3 s; the rest is for a new connection.
inline constexpr shared::Milliseconds kLadderDeadline{15'000};

/// JSON for albedo_signal.py's stdin.
std::string ladder_request(const std::string& run);

/// Its answer line. Errors: gone (no such directory), failed (another machine's, or in its words).
shared::Result<std::string> read_ladder(std::string_view answer, std::string_view words);

}  // namespace hostagent
