// What the api asks a session's kernel about its jobs, for HTTP threads. Asking starts no kernel, and
// stopping is never repeated by itself: who asked is told when nobody knows whether it happened.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "api/sessions/sessions.h"

namespace sessions {

class Jobs {
  public:
    explicit Jobs(Sessions& sessions);

    /// Rows {id, pid, command, state, started_at, ms, exit_code, end, timed_out, output_bytes,
    /// service, kept, current}: those that run and the newest that have ended. `current` is false
    /// for what was known last of a kernel that is away. Errors: not_found (no such session).
    shared::Result<nlohmann::json> list(shared::SessionId session, shared::TimePoint deadline);

    /// "gone", or "SURVIVED". Errors: not_found (no such session, job or kernel); unavailable (the
    /// kernel is away, nothing was asked); timed_out (asked, and no answer came).
    shared::Result<std::string> stop(shared::SessionId session, std::int64_t job,
                                     shared::TimePoint deadline);

  private:
    enum class Asked { answered, away, cut_off };
    Asked ask(agents::Monitor::Lock& lock, Session& session, nlohmann::json question,
              shared::TimePoint deadline, nlohmann::json& answer);

    Sessions& sessions_;
    agents::Monitor& monitor_;
};

}  // namespace sessions
