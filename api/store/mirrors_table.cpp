#include "api/store/mirrors_table.h"

namespace store {

using shared::Result;

std::string mirrors_schema() {
    return "CREATE TABLE mirrors (workspace TEXT PRIMARY KEY, files TEXT NOT NULL,"
           " read_ms INTEGER NOT NULL);";
}

Result<void> save_mirror(Connection& connection, const MirrorRow& row) {
    auto saved = connection.run(
        "INSERT INTO mirrors (workspace, files, read_ms) VALUES (?, ?, ?) ON CONFLICT (workspace)"
        " DO UPDATE SET files = excluded.files, read_ms = excluded.read_ms",
        {row.workspace, row.files, row.read_ms});
    if (!saved) return std::move(saved).error();
    return {};
}

Result<std::optional<MirrorRow>> find_mirror(Connection& connection, const std::string& workspace) {
    std::optional<MirrorRow> found;
    auto asked = connection.query("SELECT files, read_ms FROM mirrors WHERE workspace = ?",
                                  {workspace}, [&](const Row& row) {
                                      found = MirrorRow{workspace, row.text(0), row.integer(1)};
                                  });
    if (!asked) return std::move(asked).error();
    return found;
}

}  // namespace store
