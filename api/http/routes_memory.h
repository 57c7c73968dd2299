// A workspace's memory for people: what cells read and write through `memory`.
//
//   GET  /memory?workspace=W        -> {"workspace", "text"}
//   POST /memory {workspace, text}  -> {"workspace"}; the text and a newline are added
//   GET  /links?workspace=W         -> the page of `/link`: {"title", "rows": [...]}; asks every
//   host
// 400 for a workspace that is none, 413 beyond 4 MiB, 507 when the disk refuses.
#pragma once

#include "api/http/server.h"
#include "api/memory/memory_calls.h"
#include "api/workspaces/links.h"

namespace http {

void add_memory_routes(Server& server, memory::MemoryCalls& memory, workspaces::Links& links);

}  // namespace http
