#include "api/http/routes_sessions.h"

#include <filesystem>

#include "api/http/errors.h"
#include "api/sessions/idle_release.h"
#include "api/sessions/operation_ids.h"

namespace http {

using shared::Error;
using shared::ErrorCode;
using shared::Result;

namespace {
constexpr shared::Milliseconds kProbeDeadline{30'000};
constexpr std::size_t kMaxName = 500;

Error no_session() {
    return {ErrorCode::not_found, "no such session", {}};
}

Response create_session(RouteWorld& world, const Request& request) {
    Fields fields(request.body);
    const std::string workspace = fields.text("workspace");
    const auto provider = fields.optional_text("provider", kMaxName);
    const auto model = fields.optional_text("model", kMaxName);
    const auto operation_text = fields.optional_text("operationId");
    if (auto read = fields.finish(); !read) return error_response(read.error());

    shared::OperationId operation = shared::OperationId::make();
    const std::string intent = dump_json({workspace, provider.value_or(""), model.value_or("")});
    if (operation_text) {
        auto parsed =
            sessions::parse_operation_id(*operation_text, std::chrono::system_clock::now());
        if (!parsed) return error_response(parsed.error());
        operation = *parsed;
        auto earlier = world.sessions.created(operation, intent, request_deadline());
        if (!earlier) return error_response(earlier.error());
        if (*earlier) return json_response(session_json(**earlier));
    }
    auto location = resolve_workspace(world, workspace);
    if (!location) return error_response(location.error());
    store::SessionRow row;
    row.id = shared::SessionId::make();
    set_workspace(row, *location);
    row.provider = provider.value_or("");
    row.model = model.value_or("");
    row.created_ms = row.used_ms = shared::wall_ms();
    auto made = world.sessions.create(std::move(row), operation, intent, request_deadline());
    if (!made) return error_response(made.error());
    Json answer = session_json(*made);
    answer["operationId"] = operation.text();
    return json_response(answer);
}

Response list_sessions(RouteWorld& world, const Request&) {
    Json rows = Json::array();
    auto lock = world.monitor.lock();
    for (const auto& row : world.sessions.list(lock)) rows.push_back(session_json(row));
    lock.unlock();
    return json_response(rows);
}

Response get_session(RouteWorld& world, const Request& request) {
    auto id = session_of(request);
    if (!id) return error_response(id.error());
    auto lock = world.monitor.lock();
    const auto session = world.sessions.find(lock, *id);
    if (!session) return error_response(no_session());
    Json answer = session_json(session->row);
    answer["kernel"] = kernel_json(*session, world.hosts.find(lock, session->row.host));
    return json_response(answer);
}

Response rename_session(RouteWorld& world, const Request& request) {
    auto id = session_of(request);
    if (!id) return error_response(id.error());
    Fields fields(request.body);
    const std::string name = fields.text("name", kMaxName);
    if (auto read = fields.finish(); !read) return error_response(read.error());
    auto row = world.sessions.rename(*id, name, request_deadline());
    return row ? json_response(session_json(*row)) : error_response(row.error());
}

Response delete_session(RouteWorld& world, const Request& request) {
    auto id = session_of(request);
    if (!id) return error_response(id.error());
    auto removed = world.sessions.remove(*id, request_deadline());
    return removed ? json_response({{"deleted", id->text()}}) : error_response(removed.error());
}

}  // namespace

Result<shared::SessionId> session_of(const Request& request) {
    if (auto id = shared::SessionId::parse(request.parameter("id"))) return *id;
    return no_session();
}

Json session_json(const store::SessionRow& row) {
    Json place = {{"host", nullptr}, {"user", nullptr}, {"path", row.path}, {"label", row.host}};
    if (auto location = workspaces::parse_location(row.workspace)) {
        if (!location->is_local()) place["host"] = location->host;
        if (!location->user.empty()) place["user"] = location->user;
        place["label"] = location->label();
    }
    return {{"id", row.id.text()},          {"workspace", row.workspace}, {"location", place},
            {"provider", row.provider},     {"model", row.model},         {"name", row.name},
            {"created_at", row.created_ms}, {"used_at", row.used_ms}};
}

Json kernel_json(const sessions::Session& session, const agents::HostEnd* host) {
    using sessions::LinkState;
    Json kernel = {{"link", "none"}, {"stale", false}};
    const auto* link = session.link();
    if (link != nullptr) {
        kernel["link"] = to_string(link->state());
        kernel["run"] = link->record().run_id;
        if (!link->machine().detail().empty()) kernel["detail"] = link->machine().detail();
        if (link->keeper_pid() > 0) kernel["pid"] = link->keeper_pid();
        if (session.worker().is_object()) kernel["worker"] = session.worker();
        if (host != nullptr && sessions::is_stale(*link, host->report())) {
            kernel["stale"] = true;
            kernel["reason"] = "it was started by another version; it is replaced when it is idle";
        }
        if (link->state() == LinkState::attached) return kernel;
    } else if (!session.start_failure().empty()) {
        kernel["detail"] = session.start_failure();
    }
    if (host != nullptr) {
        const std::string step = shared::to_string(host->report().step);
        if (!step.empty()) kernel["step"] = step;
    }
    return kernel;
}

Result<workspaces::Location> resolve_workspace(RouteWorld& world, const std::string& text) {
    auto location = workspaces::parse_location(text);
    if (!location) return location;
    if (location->is_local()) {
        *location = workspaces::resolve(*location, world.user_home);
        std::error_code failed;
        if (!std::filesystem::is_directory(location->path, failed))
            return Error{ErrorCode::invalid,
                         location->path + (failed ? ": " + failed.message() : " is no folder"),
                         {}};
        return location;
    }
    if (!location->is_home_relative) return location;
    auto report =
        world.hosts.probe(location->target(), false, shared::Monotonic::now() + kProbeDeadline,
                          agents::WhenFull::refuse);
    if (!report) return report.error();
    if (report->state != shared::HostState::ready || report->home.empty())
        return Error{ErrorCode::invalid,
                     "the home on " + location->target() + " is not known: " + report->detail,
                     location->target()};
    return workspaces::resolve(*location, report->home);
}

void set_workspace(store::SessionRow& row, const workspaces::Location& location) {
    row.workspace = location.text();
    row.host = location.target();
    row.path = location.path;
}

void add_session_routes(Server& server, RouteWorld& world) {
    const auto bind = [&world](auto handler) {
        return [&world, handler](const Request& request) { return handler(world, request); };
    };
    server.route("POST", "/sessions", bind(create_session));
    server.route("GET", "/sessions", bind(list_sessions));
    server.route("GET", "/sessions/:id", bind(get_session));
    server.route("PATCH", "/sessions/:id", bind(rename_session));
    server.route("DELETE", "/sessions/:id", bind(delete_session));
}

}  // namespace http
