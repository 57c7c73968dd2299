#include "cli/running_cell.h"

#include "cli/sessions.h"

namespace cli {
namespace {

using shared::Error;
using shared::ErrorCode;

/// The newest cell of `session` that has not ended.
shared::Result<Cell> running_cell(Client& client, const Session& session) {
    const auto cells = client.get("/sessions/" + path_segment(session.id) + "/cells");
    if (!cells) return cells.error();
    for (const auto& cell : *cells) {
        const std::string status = cell.value("status", std::string());
        if (status == "running" || status == "queued") {
            return Cell{session, cell.value("cell_id", std::string())};
        }
    }
    return Error{ErrorCode::not_found, "no cell runs in session " + session.id, ""};
}

}  // namespace

shared::Result<Cell> find_cell(Client& client, const std::string& target) {
    const auto listed = list_sessions(client);
    if (!listed) return listed.error();
    for (const auto& row : *listed) {
        Session session{row.value("id", std::string()), row.value("workspace", std::string())};
        if (session.id == target) return running_cell(client, session);
        const auto cell =
            client.get("/sessions/" + path_segment(session.id) + "/cells/" + path_segment(target));
        if (cell) return Cell{std::move(session), target};
        if (cell.error().code != ErrorCode::not_found && cell.error().code != ErrorCode::invalid) {
            return cell.error();
        }
    }
    auto session = session_by_id(client, target);
    if (session) return running_cell(client, *session);
    if (session.error().code != ErrorCode::not_found) return session.error();
    return Error{ErrorCode::not_found,
                 "there is no session and no cell " + target + "; see: albedo sessions", ""};
}

}  // namespace cli
