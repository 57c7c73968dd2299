// GET /metrics: everything that is counted, in Prometheus' text format 0.0.4.
#pragma once

#include "api/http/route_world.h"
#include "api/metrics/metrics.h"

namespace http {

/// What is counted as it happens comes from `counted`; processes, hosts, sessions and kernels are
/// looked at when somebody asks. A supervisor that does not answer costs its part alone.
void add_metrics_routes(Server& server, RouteWorld& world, const metrics::Metrics& counted);

}  // namespace http
