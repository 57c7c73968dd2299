// Routes of hosts: /hosts, /hosts/:host and what an operator may do to one.
#pragma once

#include "api/http/json_codec.h"
#include "api/http/route_world.h"

namespace http {

void add_host_routes(Server& server, RouteWorld& world);

/// {host, state, detail, os, arch, home, control_path, step, ...}; a host never asked has no state.
Json host_json(const std::string& host, const shared::HostReport& report);

/// The refusal of a name that is no host's; nothing for a good one.
std::optional<Response> bad_host(const std::string& host);

}  // namespace http
