// What can be done in a session beside prompting: the catalogue, `/link`, `/cd` and skills.
//
//   GET  /sessions/:id/commands  -> {"commands": [{"name", "description", "method", "usage",
//        "arguments", "modelCallable", "userTurn", "skill"}]}. Asks no host: a remote project's
//        skills are those last read.
//   POST /sessions/:id/commands  {"name": "/link", "args": {"action"?, "details"?}} or
//        {"name", "arguments": "raw text"} -> {"result": {...}}, or {"submitted": true, ...} for a
//        skill, which becomes a prompt. 404 for a session or command that is not.
//   POST /sessions/:id/workspace {"workspace"} -> the session. Idle only, else 409; its kernel is
//        ended on its host, the transcript stays and says so.
#pragma once

#include <functional>
#include <string>

#include "api/http/json_codec.h"
#include "api/http/server.h"
#include "api/sessions/sessions.h"
#include "api/workspaces/links.h"
#include "api/workspaces/projects.h"

namespace http {

/// What the routes need of others; all outlive the server.
struct CommandWorld {
    sessions::Sessions& sessions;
    workspaces::Links& links;
    workspaces::Projects& projects;
    /// Checks and completes a workspace as POST /sessions does. Errors as there.
    std::function<shared::Result<store::SessionRow>(const std::string& workspace)> place;
    /// The session as JSON, as GET /sessions/:id answers it.
    std::function<Json(const store::SessionRow&)> show;
    /// A durable note in a session's transcript.
    std::function<void(shared::SessionId, const std::string& text)> note;
    /// Submits a skill as a prompt; the receipt.
    std::function<shared::Result<Json>(shared::SessionId, const skills::Skill& skill,
                                       const std::string& arguments)>
        submit_skill;
};

void add_command_routes(Server& server, CommandWorld world);

}  // namespace http
