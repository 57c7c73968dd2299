// Routes of sessions: /sessions, /sessions/:id, /sessions/:id/status.
#pragma once

#include "api/http/json_codec.h"
#include "api/http/route_world.h"
#include "api/workspaces/location.h"

namespace http {

void add_session_routes(Server& server, RouteWorld& world);

/// {id, workspace, location: {host, user, path, label}, provider, model, name, created_at, used_at}
Json session_json(const store::SessionRow& row);
/// {link, step?, detail?, ...}; the Monitor is held.
Json kernel_json(const sessions::Session& session, const agents::HostEnd* host);

/// A workspace's text to a place that a session can be in: `~` resolved (elsewhere by one bounded
/// probe), a folder here seen to be there. Errors: invalid with the reason, ssh's words included.
shared::Result<workspaces::Location> resolve_workspace(RouteWorld& world, const std::string& text);
/// Workspace, host and path of a row.
void set_workspace(store::SessionRow& row, const workspaces::Location& location);

}  // namespace http
