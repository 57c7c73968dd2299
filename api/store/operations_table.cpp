#include "api/store/operations_table.h"

namespace store {

using shared::Result;

std::string operations_schema() {
    return "CREATE TABLE operations (id TEXT PRIMARY KEY, kind TEXT NOT NULL, intent TEXT NOT NULL,"
           " result TEXT NOT NULL, created_ms INTEGER NOT NULL) WITHOUT ROWID;";
}

Result<bool> insert_operation(Connection& connection, const OperationRow& row) {
    auto added =
        connection.run("INSERT INTO operations VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                       {row.id.text(), row.kind, row.intent, row.result, row.created_ms});
    if (!added) return std::move(added).error();
    return *added > 0;
}

Result<std::optional<OperationRow>> find_operation(Connection& connection, shared::OperationId id) {
    std::optional<OperationRow> found;
    auto read = connection.query(
        "SELECT kind, intent, result, created_ms FROM operations WHERE id = ?", {id.text()},
        [&](const Row& row) {
            found = OperationRow{id, row.text(0), row.text(1), row.text(2), row.integer(3)};
        });
    if (!read) return std::move(read).error();
    return found;
}

Result<void> set_operation_result(Connection& connection, shared::OperationId id,
                                  const std::string& result) {
    auto changed =
        connection.run("UPDATE operations SET result = ? WHERE id = ?", {result, id.text()});
    if (!changed) return std::move(changed).error();
    return {};
}

Result<std::optional<shared::OperationId>> newest_operation_id(Connection& connection) {
    std::optional<shared::OperationId> id;
    auto read = connection.query("SELECT max(id) FROM operations", {}, [&](const Row& row) {
        id = shared::OperationId::parse(row.text(0));
    });
    if (!read) return std::move(read).error();
    return id;
}

Result<void> expire_operations(Connection& connection, std::int64_t before_ms) {
    auto gone = connection.run(
        "DELETE FROM operations WHERE created_ms < ? AND id NOT IN (SELECT operation FROM inputs)"
        " AND id NOT IN (SELECT operation FROM turns)",
        {before_ms});
    if (!gone) return std::move(gone).error();
    return {};
}

}  // namespace store
