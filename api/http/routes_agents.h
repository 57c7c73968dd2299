// Routes of the operators: what a host's agent does, and how it is steered.
#pragma once

#include "api/http/route_world.h"
#include "api/metrics/metrics.h"

namespace http {

void add_agent_routes(Server& server, RouteWorld& world, const metrics::Metrics& counted);

}  // namespace http
