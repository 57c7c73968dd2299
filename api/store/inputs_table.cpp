#include "api/store/inputs_table.h"

namespace store {

using shared::OperationId;
using shared::Result;
using shared::SessionId;

namespace {
Result<void> nothing(Result<std::int64_t> changed) {
    if (!changed) return std::move(changed).error();
    return {};
}

Result<std::int64_t> number(Connection& connection, std::string_view sql, const Values& values) {
    std::int64_t found = 0;
    auto read = connection.query(sql, values, [&](const Row& row) { found = row.integer(0); });
    if (!read) return std::move(read).error();
    return found;
}
}  // namespace

std::string inputs_schema() {
    return "CREATE TABLE inputs (seq INTEGER PRIMARY KEY AUTOINCREMENT, operation TEXT NOT NULL "
           "UNIQUE,"
           " session TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE, text TEXT NOT NULL,"
           " client_id TEXT NOT NULL, submission_id TEXT NOT NULL, source TEXT NOT NULL,"
           " created_ms INTEGER NOT NULL);"
           "CREATE INDEX inputs_of_session ON inputs (session);"
           "CREATE TABLE turns (session TEXT PRIMARY KEY REFERENCES sessions(id) ON DELETE CASCADE,"
           " operation TEXT NOT NULL UNIQUE, submission_id TEXT NOT NULL,"
           " interrupted INTEGER NOT NULL, started_ms INTEGER NOT NULL) WITHOUT ROWID;"
           "CREATE TABLE model_notes (id INTEGER PRIMARY KEY,"
           " session TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE, text TEXT NOT NULL);"
           "CREATE INDEX model_notes_of_session ON model_notes (session);";
}

// --- inputs -------------------------------------------------------------------------------------

Result<std::int64_t> insert_input(Connection& connection, const InputRow& row) {
    auto added = connection.run(
        "INSERT INTO inputs (operation, session, text, client_id, submission_id, source,"
        " created_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
        {row.operation.text(), row.session.text(), row.text, row.client_id, row.submission_id,
         row.source, row.created_ms});
    if (!added) return std::move(added).error();
    return number(connection, "SELECT seq FROM inputs WHERE operation = ?", {row.operation.text()});
}

Result<std::int64_t> count_inputs(Connection& connection, SessionId session) {
    return number(connection, "SELECT count(*) FROM inputs WHERE session = ?", {session.text()});
}

Result<bool> has_input(Connection& connection, OperationId operation) {
    auto found =
        number(connection, "SELECT count(*) FROM inputs WHERE operation = ?", {operation.text()});
    if (!found) return std::move(found).error();
    return *found > 0;
}

Result<bool> delete_input(Connection& connection, OperationId operation) {
    auto gone = connection.run("DELETE FROM inputs WHERE operation = ?", {operation.text()});
    if (!gone) return std::move(gone).error();
    return *gone > 0;
}

Result<std::vector<InputRow>> all_inputs(Connection& connection) {
    std::vector<InputRow> rows;
    auto read = connection.query(
        "SELECT seq, operation, session, text, client_id, submission_id, source, created_ms"
        " FROM inputs ORDER BY seq",
        {}, [&](const Row& row) {
            const auto operation = OperationId::parse(row.text(1));
            const auto session = SessionId::parse(row.text(2));
            if (!operation || !session) return;
            rows.push_back({row.integer(0), *operation, *session, row.text(3), row.text(4),
                            row.text(5), row.text(6), row.integer(7)});
        });
    if (!read) return std::move(read).error();
    return rows;
}

// --- turns --------------------------------------------------------------------------------------

Result<void> insert_turn(Connection& connection, const TurnRow& row) {
    return nothing(connection.run("INSERT INTO turns VALUES (?, ?, ?, ?, ?)",
                                  {row.session.text(), row.operation.text(), row.submission_id,
                                   row.interrupted ? 1 : 0, row.started_ms}));
}

Result<void> mark_interrupted(Connection& connection, SessionId session, OperationId operation) {
    return nothing(
        connection.run("UPDATE turns SET interrupted = 1 WHERE session = ? AND operation = ?",
                       {session.text(), operation.text()}));
}

Result<void> delete_turn(Connection& connection, SessionId session) {
    return nothing(connection.run("DELETE FROM turns WHERE session = ?", {session.text()}));
}

Result<std::vector<TurnRow>> all_turns(Connection& connection) {
    std::vector<TurnRow> rows;
    auto read = connection.query(
        "SELECT session, operation, submission_id, interrupted, started_ms FROM turns", {},
        [&](const Row& row) {
            const auto session = SessionId::parse(row.text(0));
            const auto operation = OperationId::parse(row.text(1));
            if (!operation || !session) return;
            rows.push_back(
                {*session, *operation, row.text(2), row.integer(3) != 0, row.integer(4)});
        });
    if (!read) return std::move(read).error();
    return rows;
}

// --- notes to the model -------------------------------------------------------------------------

Result<void> add_model_note(Connection& connection, SessionId session, const std::string& text) {
    return nothing(connection.run("INSERT INTO model_notes (session, text) VALUES (?, ?)",
                                  {session.text(), text}));
}

Result<std::vector<ModelNoteRow>> model_notes(Connection& connection, SessionId session) {
    std::vector<ModelNoteRow> rows;
    auto read = connection.query("SELECT id, text FROM model_notes WHERE session = ? ORDER BY id",
                                 {session.text()}, [&](const Row& row) {
                                     rows.push_back({row.integer(0), row.text(1)});
                                 });
    if (!read) return std::move(read).error();
    return rows;
}

Result<void> delete_model_notes(Connection& connection, SessionId session, std::int64_t through) {
    return nothing(connection.run("DELETE FROM model_notes WHERE session = ? AND id <= ?",
                                  {session.text(), through}));
}

}  // namespace store
