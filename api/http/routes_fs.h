// GET /fs/list, /fs/repo, /fs/preview ?path=WORKSPACE: what a folder holds, here or on a host.
//
// 200 with the host's answer; 400 malformed path; 404 no such folder; 503 {"error", "code", "host",
// "state", "control_path"?} for a host that is not ready; 504 when it did not answer in time.
#pragma once

#include "api/http/server.h"
#include "api/workspaces/folders.h"

namespace http {

void add_fs_routes(Server& server, workspaces::Folders& folders);

}  // namespace http
