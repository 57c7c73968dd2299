#include "api/store/sessions_table.h"

namespace store {

using shared::Result;

namespace {
Result<void> nothing(Result<std::int64_t> changed) {
    if (!changed) return std::move(changed).error();
    return {};
}
}  // namespace

std::string sessions_schema() {
    return "CREATE TABLE sessions (id TEXT PRIMARY KEY, workspace TEXT NOT NULL, host TEXT NOT "
           "NULL,"
           " path TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL, name TEXT NOT NULL,"
           " created_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL) WITHOUT ROWID;";
}

Result<void> insert_session(Connection& connection, const SessionRow& row) {
    return nothing(connection.run("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                  {row.id.text(), row.workspace, row.host, row.path, row.provider,
                                   row.model, row.name, row.created_ms, row.used_ms}));
}

Result<void> update_session(Connection& connection, const SessionRow& row) {
    return nothing(connection.run(
        "UPDATE sessions SET workspace = ?, host = ?, path = ?, provider = ?, model = ?, name = ?"
        " WHERE id = ?",
        {row.workspace, row.host, row.path, row.provider, row.model, row.name, row.id.text()}));
}

Result<void> touch_session(Connection& connection, shared::SessionId id, std::int64_t used_ms) {
    return nothing(
        connection.run("UPDATE sessions SET used_ms = ? WHERE id = ?", {used_ms, id.text()}));
}

Result<void> delete_session(Connection& connection, shared::SessionId id) {
    const std::string text = id.text();
    for (const char* sql :
         {"DELETE FROM kernel_calls WHERE run_id IN (SELECT run_id FROM kernels WHERE session = ?)",
          "DELETE FROM kernels WHERE session = ?", "DELETE FROM cells WHERE session = ?",
          "DELETE FROM sessions WHERE id = ?"})
        if (auto gone = nothing(connection.run(sql, {text})); !gone) return gone;
    return {};
}

Result<std::vector<SessionRow>> all_sessions(Connection& connection) {
    std::vector<SessionRow> rows;
    auto read = connection.query(
        "SELECT id, workspace, host, path, provider, model, name, created_ms, used_ms FROM "
        "sessions",
        {}, [&](const Row& row) {
            const auto id = shared::SessionId::parse(row.text(0));
            if (!id) return;
            rows.push_back({*id, row.text(1), row.text(2), row.text(3), row.text(4), row.text(5),
                            row.text(6), row.integer(7), row.integer(8)});
        });
    if (!read) return std::move(read).error();
    return rows;
}

}  // namespace store
