// What a client sends into a session.
//
//   POST /sessions/:id/events  {"content"} | {"type": "skill", "name", "arguments"?} |
//        {"type": "continue"}, each with "operationId"?, "clientId"?, "submissionId"?
//        -> 202 {"operationId", "queued", "clientId"?, "submissionId"?}, once it is on disk; the
//        same again for the same id and intent, whenever. 409 for blank content, another intent or
//        a full queue; 410 for an unknown id older than 7 days; 413 over kMaxPromptBytes.
//   POST /sessions/:id/interrupt {"operationId"?} -> {"interrupted", "cancelled"}: inputs that wait
//        are cancelled, the turn is asked to stop. With an id: only if that one's turn runs.
//   POST /sessions/:id/cancel-submission {"submissionId"} -> {"outcome"}
#include "api/http/errors.h"
#include "api/http/route_world.h"
#include "api/http/turn_routes.h"
#include "api/sessions/operation_ids.h"

namespace http {

using shared::Error;
using shared::ErrorCode;
using shared::Result;
using shared::SessionId;

namespace {
constexpr std::size_t kMaxPromptBytes = 1u << 20;  // half of what one request to a model may hold
constexpr std::size_t kEventBody = 2u << 20;       // escapes included
constexpr std::size_t kMaxNameBytes = 500;

bool is_blank(const std::string& text) {
    return text.find_first_not_of(" \t\r\n\v\f") == std::string::npos;
}

std::string skill_text(const skills::Skill& skill, const std::string& arguments) {
    std::string text = "Use the skill " + skill.name + " (" + skill.path + "):\n\n" + skill.body;
    if (!is_blank(arguments)) text += "\n\nWhat it is wanted for: " + arguments;
    return text;
}

Result<std::string> workspace_of(TurnRoutes& world, SessionId id) {
    auto& sessions = world.turns.world().sessions;
    auto lock = sessions.world().link.monitor.lock();
    const auto session = sessions.find(lock, id);
    if (!session) return Error{ErrorCode::not_found, "no such session", {}};
    return session->row.workspace;
}

Response accepted(const std::string& receipt) {
    Response response;
    response.status = 202;
    response.body = receipt;
    return response;
}

/// What of the body says which prompt it is.
struct Asked {
    std::string type;
    std::string content;
    std::string name;
    std::string arguments;
};

Result<std::string> text_of_prompt(TurnRoutes& world, SessionId session, const Asked& asked) {
    if (asked.type == "continue") return std::string("Continue.");
    if (asked.type == "user") return asked.content;
    auto workspace = workspace_of(world, session);
    if (!workspace) return std::move(workspace).error();
    const auto skill = world.find_skill(*workspace, asked.name);
    if (!skill) return Error{ErrorCode::not_found, "there is no skill " + asked.name, {}};
    return skill_text(*skill, asked.arguments);
}

Response post_event(TurnRoutes& world, const Request& request) {
    auto session = session_of(request);
    if (!session) return error_response(session.error());
    Fields fields(request.body);
    Asked asked;
    asked.type = fields.optional_text("type", kMaxNameBytes).value_or("user");
    if (asked.type == "user") asked.content = fields.text("content");
    if (asked.type == "skill") {
        asked.name = fields.text("name", kMaxNameBytes);
        asked.arguments = fields.optional_text("arguments").value_or("");
    }
    const auto operation = fields.optional_text("operationId");
    sessions::Prompt prompt;
    prompt.client_id = fields.optional_text("clientId", kMaxNameBytes).value_or("");
    prompt.submission_id = fields.optional_text("submissionId", kMaxNameBytes).value_or("");
    if (auto read = fields.finish(); !read) return error_response(read.error());
    if (asked.type != "user" && asked.type != "skill" && asked.type != "continue")
        return error_response({ErrorCode::invalid, "type must be skill or continue", {}});
    if (asked.type == "user" && is_blank(asked.content))
        return error_response({ErrorCode::conflict, "content is blank", {}});
    if (asked.content.size() + asked.arguments.size() > kMaxPromptBytes)
        return error_response({ErrorCode::too_large, "a prompt has at most 1 MiB", {}});

    prompt.operation = shared::OperationId::make();
    prompt.intent =
        dump_json({session->text(), asked.type, asked.content, asked.name, asked.arguments});
    prompt.source = asked.type;
    if (operation) {
        auto id = sessions::parse_operation_id(*operation, std::chrono::system_clock::now());
        if (!id) return error_response(id.error());
        prompt.operation = *id;
        // Before anything is looked up that may be another today: a skill's text, the session.
        auto earlier = world.turns.repeated(*id, prompt.intent, request_deadline());
        if (!earlier) return error_response(earlier.error());
        if (*earlier) return accepted(**earlier);
    }
    auto text = text_of_prompt(world, *session, asked);
    if (!text) return error_response(text.error());
    prompt.text = std::move(*text);
    auto receipt = world.turns.submit(*session, prompt, request_deadline());
    if (!receipt) return error_response(receipt.error());
    return accepted(*receipt);
}

Response interrupt(TurnRoutes& world, const Request& request) {
    auto session = session_of(request);
    if (!session) return error_response(session.error());
    Fields fields(request.body.empty() ? "{}" : request.body);
    const auto only = fields.optional_text("operationId");
    if (auto read = fields.finish(); !read) return error_response(read.error());
    const auto operation = only ? shared::OperationId::parse(*only) : std::nullopt;
    if (only && !operation)
        return error_response({ErrorCode::invalid, "operationId must be a UUID", {}});
    auto done = world.turns.interrupt(*session, operation, request_deadline());
    if (!done) return error_response(done.error());
    return json_response({{"interrupted", done->turn}, {"cancelled", done->cancelled}});
}

Response cancel_submission(TurnRoutes& world, const Request& request) {
    auto session = session_of(request);
    if (!session) return error_response(session.error());
    Fields fields(request.body);
    const auto submission = fields.text("submissionId", kMaxNameBytes);
    if (auto read = fields.finish(); !read) return error_response(read.error());
    auto outcome = world.turns.cancel(*session, submission, request_deadline());
    if (!outcome) return error_response(outcome.error());
    return json_response({{"outcome", *outcome}});
}
}  // namespace

Result<Json> submit_skill(TurnRoutes& world, SessionId session, const skills::Skill& skill,
                          const std::string& arguments) {
    sessions::Prompt prompt;
    prompt.operation = shared::OperationId::make();
    prompt.intent = dump_json({session.text(), "skill", "", skill.name, arguments});
    prompt.source = "skill";
    prompt.text = skill_text(skill, arguments);
    auto receipt = world.turns.submit(session, prompt, request_deadline());
    if (!receipt) return std::move(receipt).error();
    return parse_json(*receipt);
}

void add_event_routes(Server& server, TurnRoutes& world) {
    const auto bind = [&world](auto handler) {
        return [&world, handler](const Request& request) { return handler(world, request); };
    };
    server.route("POST", "/sessions/:id/events", bind(post_event), {.body_limit = kEventBody});
    server.route("POST", "/sessions/:id/interrupt", bind(interrupt));
    server.route("POST", "/sessions/:id/cancel-submission", bind(cancel_submission));
}

}  // namespace http
