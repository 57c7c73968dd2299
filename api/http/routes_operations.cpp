// What became of what a client asked, and what goes to the models.
//
//   GET /operations/:id -> {"operationId", "kind", "status": "accepted", "deliveryStatus":
//        "pending" | "committed" | "cancelled", "blockingReason": text or null, "result"}.
//        404 for an id nobody used, 410 when it is so old that its receipt may be gone.
//   GET /sessions/:id/context -> the request that went to the model last, with the size of each of
//        its parts; {"request": null} when there was none since the daemon started.
//   GET /config -> what config.json says: {"path", "ok", "error", "active", "warnings",
//        "providers": [{"name", "protocol", "model", "baseUrl", "key", "problem"}]}; never a key.
#include "api/http/errors.h"
#include "api/http/route_world.h"
#include "api/http/turn_routes.h"
#include "api/sessions/operation_ids.h"

namespace http {

using shared::Error;
using shared::ErrorCode;

namespace {

Response operation(TurnRoutes& world, const Request& request) {
    const auto id = shared::OperationId::parse(request.parameter("id"));
    if (!id) return error_response({ErrorCode::not_found, "no such operation", {}});
    auto found = world.turns.operation(*id, request_deadline());
    if (!found) return error_response(found.error());
    if (!*found) {
        if (sessions::too_old(*id, std::chrono::system_clock::now()))
            return error_response({ErrorCode::expired, "its receipt was kept for 7 days", {}});
        return error_response({ErrorCode::not_found, "no such operation", {}});
    }
    const auto& state = (*found)->state;
    const auto& reason = (*found)->blocking_reason;
    return json_response({{"operationId", id->text()},
                          {"kind", state.kind},
                          {"status", "accepted"},
                          {"deliveryStatus", state.delivery},
                          {"blockingReason", reason.empty() ? Json(nullptr) : Json(reason)},
                          {"result", Json::parse(state.result, nullptr, false)}});
}

struct ItemJson {
    Json operator()(const providers::UserItem& item) const {
        return {{"role", "user"}, {"text", item.text}, {"bytes", item.text.size()}};
    }
    Json operator()(const providers::AssistantItem& item) const {
        return {{"role", "assistant"}, {"text", item.text}, {"bytes", item.text.size()}};
    }
    Json operator()(const providers::ToolCallItem& item) const {
        return {{"role", "call"},
                {"call_id", item.call_id},
                {"name", item.name},
                {"text", item.arguments},
                {"bytes", item.arguments.size()}};
    }
    Json operator()(const providers::ToolResultItem& item) const {
        return {{"role", "result"},
                {"call_id", item.call_id},
                {"text", item.output},
                {"bytes", item.output.size()}};
    }
};

Json request_json(const sessions::SentRequest& sent) {
    const auto& request = sent.request;
    std::size_t bytes = request.instructions.size();
    Json items = Json::array();
    for (const auto& item : request.items) {
        items.push_back(std::visit(ItemJson{}, item));
        bytes += items.back()["bytes"].get<std::size_t>();
    }
    Json tools = Json::array();
    for (const auto& tool : request.tools) {
        const auto size = tool.name.size() + tool.description.size() + tool.parameters.size();
        tools.push_back({{"name", tool.name},
                         {"description", tool.description},
                         {"parameters", Json::parse(tool.parameters, nullptr, false)},
                         {"bytes", size}});
        bytes += size;
    }
    return {
        {"provider", sent.provider},
        {"model", request.model},
        {"at", sent.at_ms},
        {"bytes", bytes},
        {"instructions", {{"text", request.instructions}, {"bytes", request.instructions.size()}}},
        {"tools", tools},
        {"items", items}};
}

Response context(TurnRoutes& world, const Request& request) {
    auto id = session_of(request);
    if (!id) return error_response(id.error());
    auto conversation = world.turns.conversation(*id);
    if (!conversation) return error_response(conversation.error());
    std::shared_ptr<const sessions::SentRequest> sent;
    {
        auto lock = world.turns.world().sessions.world().link.monitor.lock();
        sent = (*conversation)->last_request;
    }
    return json_response({{"request", sent ? request_json(*sent) : Json(nullptr)}});
}

Json profile_json(const providers::Profile& profile, const providers::Environment& environment) {
    const bool named =
        !profile.key.empty() || !profile.key_variable.empty() || !profile.key_file.empty();
    std::string problem;
    if (auto key = providers::read_key(profile, environment); !key) problem = key.error().message;
    if (problem.empty())
        if (auto made = providers::make_provider(profile, environment); !made)
            problem = made.error().message;
    return {{"name", profile.name},
            {"protocol", providers::to_string(profile.protocol)},
            {"model", profile.model},
            {"baseUrl", profile.base_url},
            {"key", named ? "set" : "none"},
            {"problem", problem.empty() ? Json(nullptr) : Json(problem)}};
}

Response config(TurnRoutes& world, const Request&) {
    Json answer = {{"path", world.config_file}, {"ok", true},
                   {"error", nullptr},          {"active", nullptr},
                   {"warnings", Json::array()}, {"providers", Json::array()}};
    auto read = world.turns.world().config.read();
    if (!read) {
        answer["ok"] = false;
        answer["error"] = read.error().message;
        return json_response(answer);
    }
    answer["active"] = read->active;
    answer["warnings"] = read->warnings;
    for (const auto& [name, profile] : read->profiles) {
        auto shown = profile_json(profile, world.turns.world().environment);
        if (!shown["problem"].is_null()) answer["ok"] = false;
        answer["providers"].push_back(std::move(shown));
    }
    return json_response(answer);
}
}  // namespace

void add_operation_routes(Server& server, TurnRoutes& world) {
    const auto bind = [&world](auto handler) {
        return [&world, handler](const Request& request) { return handler(world, request); };
    };
    server.route("GET", "/operations/:id", bind(operation));
    server.route("GET", "/sessions/:id/context", bind(context));
    server.route("GET", "/config", bind(config));
}

}  // namespace http
