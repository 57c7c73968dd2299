// What an ssh process that did not give an answer tells about the host: its exit and its words.
// Pure. The words come from the host, so they are cut, and made printable.
#pragma once

#include <string>
#include <string_view>

#include "shared/child_process.h"
#include "shared/messages.h"

namespace hostagent {

struct Verdict {
    shared::HostState state = shared::HostState::unknown;
    std::string detail;
};

inline constexpr std::size_t kMaxDetailBytes = 500;

/// Valid UTF-8 without control characters: line ends and tabs become blanks, what cannot be read
/// '?'.
std::string printable(std::string_view text);

/// The last line of stderr that says something: not a greeting of ssh's own about keys,
/// multiplexing or algorithms. Empty if there is none. At most kMaxDetailBytes.
std::string last_words(std::string_view stderr_text);

/// ssh itself failed (exit 255, or it could not run): a person could get in, or nobody can now.
Verdict ssh_failure(std::string_view stderr_text);

/// Whether an exit is ssh's own failure rather than that of the command it ran.
bool is_ssh_failure(const shared::ExitStatus& status);

/// Whether the other end turned a new connection away before any key was asked for: too many at
/// once.
bool is_turned_away(std::string_view stderr_text);

/// Whether the control connection had no session left for us.
bool is_session_refused(std::string_view stderr_text);

}  // namespace hostagent
