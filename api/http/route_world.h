// What the routes work with; lent by main, which builds all of it.
#pragma once

#include <functional>
#include <string>

#include "api/agents/hosts.h"
#include "api/http/server.h"
#include "api/sessions/cells.h"
#include "api/sessions/sessions.h"

namespace http {

struct RouteWorld {
    agents::Monitor& monitor;
    agents::Hosts& hosts;
    sessions::Sessions& sessions;
    sessions::Cells& cells;
    std::string user_home;             // $HOME, for "~"
    std::int64_t started_wall_ms = 0;  // of the daemon
    std::function<void()> want_shutdown;
};

/// A request's own time for the store and short questions.
inline constexpr shared::Milliseconds kRequestDeadline{15'000};
inline shared::TimePoint request_deadline() {
    return shared::Monotonic::now() + kRequestDeadline;
}

/// The session named in the path. Errors: not_found.
shared::Result<shared::SessionId> session_of(const Request& request);

}  // namespace http
