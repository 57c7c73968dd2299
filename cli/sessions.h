// From what a person types to a session: a folder, a host's folder, an id or its start.
#pragma once

#include <string>

#include "cli/client.h"
#include "shared/result.h"

namespace cli {

struct Session {
    std::string id;
    std::string workspace;
};

/// The workspace a person means: `host:/path` stays as it is; a local folder becomes absolute,
/// without `.`, `..` and a slash at its end, `~` as $HOME. Pure but for $HOME and `current`.
std::string workspace_of(const std::string& text, const std::string& current);

/// The host of a workspace; "local" for a folder here.
std::string host_of(const std::string& workspace);

/// All sessions, the newest first, as the daemon lists them.
shared::Result<Json> list_sessions(Client& client);

/// The session with this id, or the only one whose id starts so. Errors: not_found, conflict.
shared::Result<Session> session_by_id(Client& client, const std::string& id);

/// What a person names to look at: a folder's newest session, or a session's id or its start.
/// Makes none. Errors: not_found.
shared::Result<Session> session_of_target(Client& client, const std::string& target);

/// The newest session of this workspace, or a new one.
shared::Result<Session> session_for(Client& client, const std::string& workspace);

/// A new session. Errors: what the daemon says of the folder or its host.
shared::Result<Session> create_session(Client& client, const std::string& workspace);

}  // namespace cli
