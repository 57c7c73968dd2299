// Table `sessions`: one row per session, as people know it. Store thread only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/store/database.h"
#include "shared/ids.h"
#include "shared/result.h"

namespace store {

struct SessionRow {
    shared::SessionId id;
    std::string workspace;  // canonical text, absolute: "/here", "user@host:/there"
    std::string host;       // as ssh takes it, user included; "local" for a folder here
    std::string path;
    std::string provider;  // empty: the configured one
    std::string model;
    std::string name;  // given by a person; empty
    std::int64_t created_ms = 0;
    std::int64_t used_ms = 0;  // orders the list
};

std::string sessions_schema();
shared::Result<void> insert_session(Connection& connection, const SessionRow& row);
shared::Result<void> update_session(Connection& connection, const SessionRow& row);
shared::Result<void> touch_session(Connection& connection, shared::SessionId id,
                                   std::int64_t used_ms);
/// With its cells, kernel and kernel calls; receipts stay.
shared::Result<void> delete_session(Connection& connection, shared::SessionId id);
shared::Result<std::vector<SessionRow>> all_sessions(Connection& connection);

}  // namespace store
