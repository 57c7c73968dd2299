#include "api/store/kernel_calls_table.h"

namespace store {

using shared::Result;

namespace {
Result<void> nothing(Result<std::int64_t> changed) {
    if (!changed) return std::move(changed).error();
    return {};
}
}  // namespace

std::string kernel_calls_schema() {
    return "CREATE TABLE kernel_calls (run_id TEXT NOT NULL, call INTEGER NOT NULL,"
           " method TEXT NOT NULL, args TEXT NOT NULL, answer TEXT NOT NULL,"
           " PRIMARY KEY (run_id, call)) WITHOUT ROWID;";
}

Result<void> insert_call(Connection& connection, const KernelCallRow& row) {
    return nothing(
        connection.run("INSERT INTO kernel_calls VALUES (?, ?, ?, ?, '') ON CONFLICT DO NOTHING",
                       {row.run_id, row.call, row.method, row.args}));
}

Result<void> answer_call(Connection& connection, const std::string& run_id, std::uint64_t call,
                         const std::string& answer) {
    return nothing(
        connection.run("UPDATE kernel_calls SET answer = ? WHERE run_id = ? AND call = ?",
                       {answer, run_id, call}));
}

Result<void> delete_call(Connection& connection, const std::string& run_id, std::uint64_t call) {
    return nothing(
        connection.run("DELETE FROM kernel_calls WHERE run_id = ? AND call = ?", {run_id, call}));
}

Result<std::vector<KernelCallRow>> all_calls(Connection& connection) {
    std::vector<KernelCallRow> rows;
    auto read = connection.query(
        "SELECT run_id, call, method, args, answer FROM kernel_calls ORDER BY run_id, call", {},
        [&](const Row& row) {
            rows.push_back({row.text(0), static_cast<std::uint64_t>(row.integer(1)), row.text(2),
                            row.text(3), row.text(4)});
        });
    if (!read) return std::move(read).error();
    return rows;
}

}  // namespace store
