// Routes of cells: POST and GET /sessions/:id/cells, and below each cell `output`, `stream`,
// `interrupt`.
#pragma once

#include <string_view>

#include "api/http/route_world.h"

namespace http {

void add_cell_routes(Server& server, RouteWorld& world);

/// How many bytes of `bytes` are whole UTF-8 characters; at most 3 at the end wait for the rest.
std::size_t whole_characters(std::string_view bytes);

}  // namespace http
