// Routes of the daemon as a whole: /health and /shutdown.
#pragma once

#include "api/http/route_world.h"

namespace http {

void add_daemon_routes(Server& server, RouteWorld& world);

}  // namespace http
