#include "api/store/kernels_table.h"

namespace store {

using shared::Error;
using shared::ErrorCode;
using shared::Result;

namespace {
Result<void> nothing(Result<std::int64_t> changed) {
    if (!changed) return std::move(changed).error();
    return {};
}
}  // namespace

std::string kernels_schema() {
    return "CREATE TABLE kernels (run_id TEXT PRIMARY KEY, session TEXT NOT NULL,"
           " token TEXT NOT NULL, host TEXT NOT NULL, folder TEXT NOT NULL, run TEXT NOT NULL,"
           " confirmed INTEGER NOT NULL, received INTEGER NOT NULL) WITHOUT ROWID;"
           "CREATE TABLE endings (run_id TEXT PRIMARY KEY, host TEXT NOT NULL,"
           " run TEXT NOT NULL) WITHOUT ROWID;";
}

Result<void> insert_kernel(Connection& connection, const KernelRow& row) {
    return nothing(connection.run("INSERT INTO kernels VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                                  {row.run_id, row.session.text(), row.token, row.host, row.folder,
                                   row.run, row.confirmed, row.received}));
}

Result<void> confirm_kernel(Connection& connection, const std::string& run_id,
                            const std::string& run) {
    return nothing(connection.run("UPDATE kernels SET confirmed = 1, run = ? WHERE run_id = ?",
                                  {run, run_id}));
}

Result<void> receive_frame(Connection& connection, const std::string& run_id, std::uint64_t before,
                           std::uint64_t seq) {
    auto changed =
        connection.run("UPDATE kernels SET received = ?1 WHERE run_id = ?2 AND received = ?3",
                       {seq, run_id, before});
    if (!changed) return std::move(changed).error();
    if (*changed == 0) return Error{ErrorCode::conflict, "the frame before was not kept", {}};
    return {};
}

Result<void> delete_kernel(Connection& connection, const std::string& run_id) {
    if (auto calls = connection.run("DELETE FROM kernel_calls WHERE run_id = ?", {run_id}); !calls)
        return std::move(calls).error();
    return nothing(connection.run("DELETE FROM kernels WHERE run_id = ?", {run_id}));
}

Result<std::vector<KernelRow>> all_kernels(Connection& connection) {
    std::vector<KernelRow> rows;
    auto read = connection.query(
        "SELECT session, run_id, token, host, folder, run, confirmed, received FROM kernels", {},
        [&](const Row& row) {
            const auto session = shared::SessionId::parse(row.text(0));
            if (!session) return;
            rows.push_back({*session, row.text(1), row.text(2), row.text(3), row.text(4),
                            row.text(5), row.integer(6) != 0,
                            static_cast<std::uint64_t>(row.integer(7))});
        });
    if (!read) return std::move(read).error();
    return rows;
}

Result<void> insert_ending(Connection& connection, const EndingRow& row) {
    return nothing(connection.run("INSERT OR REPLACE INTO endings VALUES (?, ?, ?)",
                                  {row.run_id, row.host, row.run}));
}

Result<void> delete_ending(Connection& connection, const std::string& run_id) {
    return nothing(connection.run("DELETE FROM endings WHERE run_id = ?", {run_id}));
}

Result<std::vector<EndingRow>> all_endings(Connection& connection) {
    std::vector<EndingRow> rows;
    auto read = connection.query("SELECT run_id, host, run FROM endings", {}, [&](const Row& row) {
        rows.push_back({row.text(0), row.text(1), row.text(2)});
    });
    if (!read) return std::move(read).error();
    return rows;
}

}  // namespace store
