#include "api/store/memory_table.h"

#include "shared/ids.h"

namespace store {

using shared::Result;

std::string memory_schema() {
    return "CREATE TABLE memory_slugs (workspace TEXT PRIMARY KEY, slug TEXT NOT NULL UNIQUE);"
           "CREATE TABLE memory_plans (run_id TEXT NOT NULL, call INTEGER NOT NULL,"
           " file TEXT NOT NULL, size_before INTEGER NOT NULL, bytes BLOB NOT NULL,"
           " PRIMARY KEY (run_id, call));";
}

Result<std::string> claim_slug(Connection& connection, const std::string& workspace,
                               const std::string& wanted) {
    std::string slug = wanted;
    for (;;) {
        auto taken =
            connection.run("INSERT OR IGNORE INTO memory_slugs (workspace, slug) VALUES (?, ?)",
                           {workspace, slug});
        if (!taken) return std::move(taken).error();
        std::optional<std::string> owned;
        auto asked = connection.query("SELECT slug FROM memory_slugs WHERE workspace = ?",
                                      {workspace}, [&](const Row& row) { owned = row.text(0); });
        if (!asked) return std::move(asked).error();
        if (owned) return *owned;
        slug = wanted + "-" + shared::random_hex(4);
    }
}

Result<void> insert_plan(Connection& connection, const MemoryPlanRow& row) {
    auto added = connection.run(
        "INSERT INTO memory_plans (run_id, call, file, size_before, bytes) VALUES (?, ?, ?, ?, ?)",
        {row.run_id, row.call, row.file, row.size_before, row.bytes});
    if (!added) return std::move(added).error();
    return {};
}

Result<std::optional<MemoryPlanRow>> find_plan(Connection& connection, const std::string& run_id,
                                               std::uint64_t call) {
    std::optional<MemoryPlanRow> found;
    auto asked = connection.query(
        "SELECT file, size_before, bytes FROM memory_plans WHERE run_id = ? AND call = ?",
        {run_id, call}, [&](const Row& row) {
            found = MemoryPlanRow{run_id, call, row.text(0),
                                  static_cast<std::uint64_t>(row.integer(1)), row.text(2)};
        });
    if (!asked) return std::move(asked).error();
    return found;
}

Result<void> delete_plan(Connection& connection, const std::string& run_id, std::uint64_t call) {
    auto removed =
        connection.run("DELETE FROM memory_plans WHERE run_id = ? AND call = ?", {run_id, call});
    if (!removed) return std::move(removed).error();
    return {};
}

Result<void> delete_old_plans(Connection& connection) {
    auto removed = connection.run(
        "DELETE FROM memory_plans WHERE NOT EXISTS (SELECT 1 FROM kernel_calls AS open WHERE"
        " open.run_id = memory_plans.run_id AND open.call = memory_plans.call AND open.answer = "
        "'')");
    if (!removed) return std::move(removed).error();
    return {};
}

}  // namespace store
