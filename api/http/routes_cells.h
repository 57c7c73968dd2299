// Routes of cells: POST and GET /sessions/:id/cells, and below each cell `output`, `stream`,
// `interrupt`.
//
//   GET .../output ?offset=&limit=          -> one page of bytes, `X-Albedo-Output-Bytes` beside it
//   GET .../output ?offset=&follow=true     -> the bytes from `offset` on as they are printed,
//        chunked; the response ends when the cell has ended and all were sent. It breaks off
//        without its last chunk where bytes are no longer kept: a page at the offset reached says
//        why.
//   GET .../stream, Last-Event-ID: offset   -> the same as text in server-sent events, then `done`
#pragma once

#include <string_view>

#include "api/http/route_world.h"

namespace http {

void add_cell_routes(Server& server, RouteWorld& world);

/// How many bytes of `bytes` are whole UTF-8 characters; at most 3 at the end wait for the rest.
std::size_t whole_characters(std::string_view bytes);

}  // namespace http
