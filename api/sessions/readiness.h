// Whether a turn can begin: its session has a kernel on record, or the host could start one.
#pragma once

#include <optional>
#include <string>

#include "api/sessions/sessions.h"

namespace sessions {

/// How long a turn waits for a host's first verdict: ssh's own ConnectTimeout and a little.
inline constexpr shared::Milliseconds kVerdictDeadline{11'000};

/// Why no kernel can be started for this session now, in the host's or ssh's words; nothing if it
/// can, or if there is one: a kernel on record never blocks a turn. `asked_by_person`: a host that
/// needs a sign-in is tried; else it is left alone until it reports something else. Blocks until
/// kVerdictDeadline at most.
std::optional<std::string> blocking_reason(Sessions& sessions, shared::SessionId session,
                                           bool asked_by_person);

}  // namespace sessions
