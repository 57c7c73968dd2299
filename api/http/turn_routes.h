// The routes of turns, and what they need of others.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "api/agents/hosts.h"
#include "api/http/json_codec.h"
#include "api/http/server.h"
#include "api/sessions/turns.h"
#include "api/skills/catalogue.h"

namespace http {

/// All of it outlives the server.
struct TurnRoutes {
    sessions::Turns& turns;
    agents::Hosts& hosts;
    std::string config_file;
    /// A skill of that folder; may ask its host.
    std::function<std::optional<skills::Skill>(const std::string& workspace,
                                               const std::string& name)>
        find_skill;
};

/// POST /sessions/:id/events, /interrupt, /cancel-submission.
void add_event_routes(Server& server, TurnRoutes& world);
/// GET /sessions/:id/status, /stream, /history.
void add_stream_routes(Server& server, TurnRoutes& world);
/// GET /operations/:id, /sessions/:id/context, /config.
void add_operation_routes(Server& server, TurnRoutes& world);
/// All of these.
inline void add_turn_routes(Server& server, TurnRoutes& world) {
    add_event_routes(server, world);
    add_stream_routes(server, world);
    add_operation_routes(server, world);
}

/// Prompts a session with a skill's text; the receipt. For `/commands` too. Errors: as for prompts.
shared::Result<Json> submit_skill(TurnRoutes& world, shared::SessionId session,
                                  const skills::Skill& skill, const std::string& arguments);

}  // namespace http
