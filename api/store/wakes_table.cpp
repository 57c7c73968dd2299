#include "api/store/wakes_table.h"

namespace store {

using shared::Result;
using shared::SessionId;

namespace {
constexpr std::int64_t kToldKeptMs = 15LL * 24 * 3'600'000;  // kernels keep such jobs 14 days

Result<void> nothing(Result<std::int64_t> changed) {
    if (!changed) return std::move(changed).error();
    return {};
}
}  // namespace

std::string wakes_schema() {
    return "CREATE TABLE wakes (id INTEGER PRIMARY KEY AUTOINCREMENT,"
           " session TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE, key TEXT NOT NULL,"
           " text TEXT NOT NULL, created_ms INTEGER NOT NULL, told_ms INTEGER NOT NULL DEFAULT 0,"
           " UNIQUE (session, key));";
}

Result<void> insert_wake(Connection& connection, const WakeRow& row) {
    return nothing(connection.run("INSERT INTO wakes (session, key, text, created_ms)"
                                  " SELECT ?1, ?2, ?3, ?4 WHERE (SELECT count(*) FROM wakes"
                                  " WHERE session = ?1 AND told_ms = 0) < ?5"
                                  " ON CONFLICT DO NOTHING",
                                  {row.session.text(), row.key, row.text, row.created_ms,
                                   kWakesOwed}));
}

Result<void> retire_wake(Connection& connection, SessionId session, const std::string& key) {
    return nothing(
        connection.run("DELETE FROM wakes WHERE session = ? AND key = ? AND told_ms = 0",
                       {session.text(), key}));
}

Result<std::vector<WakeRow>> owed_wakes(Connection& connection, SessionId session,
                                        std::size_t limit) {
    std::vector<WakeRow> rows;
    auto read = connection.query(
        "SELECT id, key, text, created_ms FROM wakes WHERE session = ? AND told_ms = 0"
        " ORDER BY id LIMIT ?",
        {session.text(), static_cast<std::int64_t>(limit)}, [&](const Row& row) {
            rows.push_back({row.integer(0), session, row.text(1), row.text(2), row.integer(3)});
        });
    if (!read) return std::move(read).error();
    return rows;
}

Result<std::vector<SessionId>> sessions_owed_wakes(Connection& connection) {
    std::vector<SessionId> sessions;
    auto read = connection.query("SELECT DISTINCT session FROM wakes WHERE told_ms = 0", {},
                                 [&](const Row& row) {
                                     if (const auto id = SessionId::parse(row.text(0)))
                                         sessions.push_back(*id);
                                 });
    if (!read) return std::move(read).error();
    return sessions;
}

Result<void> wakes_told(Connection& connection, SessionId session, std::int64_t through,
                        std::int64_t now_ms) {
    auto told = nothing(
        connection.run("UPDATE wakes SET told_ms = ? WHERE session = ? AND id <= ? AND told_ms = 0",
                       {now_ms, session.text(), through}));
    if (!told) return told;
    return nothing(connection.run("DELETE FROM wakes WHERE told_ms > 0 AND told_ms < ?",
                                  {now_ms - kToldKeptMs}));
}

}  // namespace store
