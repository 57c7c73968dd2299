// Routes of a session's jobs, the programs that its cells started with run().
//
//   GET    /sessions/:id/jobs       -> [{id, pid, command, state, started_at, ms, exit_code, end,
//        timed_out, output_bytes, service, kept, current}], oldest first: those that run and the
//        newest that have ended. `state` is running, ended or lost; `current` is false for what was
//        known last of a kernel that is away. Starts no kernel.
//   DELETE /sessions/:id/jobs/:job  -> {"id", "stopped": "gone" | "SURVIVED"}: TERM, 0.25 s, KILL to
//        its whole group, and whether that was seen to end. 404 no such job; 503 the kernel is away
//        and nothing was done; 504 nobody knows. Never repeated by the daemon.
#pragma once

#include "api/http/server.h"
#include "api/sessions/jobs.h"

namespace http {

void add_job_routes(Server& server, sessions::Jobs& jobs);

}  // namespace http
