#include "cli/sessions.h"

#include <cstdlib>
#include <filesystem>

#include "cli/terminal.h"
#include "shared/ids.h"

namespace cli {
namespace {

using shared::Error;
using shared::ErrorCode;

bool is_remote(const std::string& text) {
    if (text.empty() || text.front() == '/' || text.front() == '~' || text.front() == '.')
        return false;
    const auto colon = text.front() == '[' ? text.find("]:") : text.find(':');
    return colon != std::string::npos && text.find('/') > colon;
}

Session session_in(const Json& row) {
    return {row.value("id", std::string()), row.value("workspace", std::string())};
}

/// `host:~/x` with the home that the host says; other workspaces stay.
shared::Result<std::string> resolved(Client& client, const std::string& workspace) {
    if (workspace.find(":~") == std::string::npos) return workspace;
    auto listed = client.get("/fs/list?path=" + path_segment(workspace));
    if (!listed) return listed.error();
    return listed->value("path", workspace);
}

}  // namespace

std::string workspace_of(const std::string& text, const std::string& current) {
    if (is_remote(text)) return text;
    std::filesystem::path path = text;
    if (text == "~" || text.starts_with("~/")) {
        const char* home = std::getenv("HOME");
        path = std::string(home ? home : "/") + text.substr(1);
    }
    path = (std::filesystem::path(current) / path).lexically_normal();
    std::string normal = path.string();
    while (normal.size() > 1 && normal.back() == '/') normal.pop_back();
    return normal;
}

std::string host_of(const std::string& workspace) {
    if (!is_remote(workspace)) return "local";
    const auto colon = workspace.front() == '[' ? workspace.find("]:") + 1 : workspace.find(':');
    return workspace.substr(0, colon);
}

shared::Result<Json> list_sessions(Client& client) {
    auto listed = client.get("/sessions");
    if (listed && !listed->is_array()) {
        return Error{ErrorCode::protocol, "the daemon's list of sessions is no array", ""};
    }
    return listed;
}

shared::Result<Session> session_by_id(Client& client, const std::string& id) {
    auto listed = list_sessions(client);
    if (!listed) return listed.error();
    std::optional<Session> found;
    for (const auto& row : *listed) {
        Session session = session_in(row);
        if (session.id == id) return session;
        if (id.empty() || !session.id.starts_with(id)) continue;
        if (found) {
            return Error{ErrorCode::conflict,
                         "several sessions start with " + id + "; see: albedo sessions", ""};
        }
        found = std::move(session);
    }
    if (found) return *found;
    return Error{ErrorCode::not_found, "there is no session " + id + "; see: albedo sessions", ""};
}

shared::Result<Session> session_for(Client& client, const std::string& workspace) {
    auto place = resolved(client, workspace);
    if (!place) return place.error();
    auto listed = list_sessions(client);
    if (!listed) return listed.error();
    for (const auto& row : *listed) {
        if (row.value("workspace", std::string()) == *place) return session_in(row);
    }
    return create_session(client, *place);
}

shared::Result<Session> session_of_target(Client& client, const std::string& target) {
    const bool is_folder = target.find_first_of("/:") != std::string::npos ||
                           target.starts_with('.') || target.starts_with('~');
    if (!is_folder) return session_by_id(client, target);
    auto place = resolved(client, workspace_of(target, std::filesystem::current_path().string()));
    if (!place) return place.error();
    auto listed = list_sessions(client);
    if (!listed) return listed.error();
    for (const auto& row : *listed)
        if (row.value("workspace", std::string()) == *place) return session_in(row);
    return Error{ErrorCode::not_found,
                 "there is no session in " + *place + " yet; see: albedo sessions", ""};
}

shared::Result<Session> create_session(Client& client, const std::string& workspace) {
    const Progress progress([&] { return "making a session on " + host_of(workspace); });
    auto made = client.post("/sessions", {{"operationId", shared::OperationId::make().text()},
                                          {"workspace", workspace}});
    if (!made) return made.error();
    return session_in(*made);
}

}  // namespace cli
