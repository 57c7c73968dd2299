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
#include "api/http/route_world.h"
#include "api/skills/catalogue.h"
#include "api/workspaces/links.h"
#include "api/workspaces/projects.h"

namespace http {

/// What the routes need of turns; all outlive the server.
struct CommandWorld {
    RouteWorld& routes;
    workspaces::Links& links;
    workspaces::Projects& projects;
    /// A durable note in a session's transcript.
    std::function<void(shared::SessionId, const std::string& text)> note;
    /// Submits a skill as a prompt; its receipt.
    std::function<shared::Result<Json>(shared::SessionId, const skills::Skill& skill,
                                       const std::string& arguments)>
        submit_skill;
};

void add_command_routes(Server& server, CommandWorld world);

}  // namespace http
