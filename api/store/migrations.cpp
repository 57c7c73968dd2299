#include "api/store/migrations.h"

#include <cstdint>

namespace store {

using shared::Error;
using shared::ErrorCode;
using shared::Result;

namespace {

Result<std::int64_t> version_of(SqliteConnection& connection) {
    std::int64_t version = 0;
    auto read = connection.query("PRAGMA user_version", {},
                                 [&](const Row& row) { version = row.integer(0); });
    if (!read) return std::move(read).error();
    return version;
}

Result<void> apply(SqliteConnection& connection, const std::string& script, std::int64_t version) {
    if (auto begun = connection.script("BEGIN IMMEDIATE"); !begun) return begun;
    auto applied = connection.script(script);
    if (applied) applied = connection.script("PRAGMA user_version = " + std::to_string(version));
    if (applied) applied = connection.script("COMMIT");
    if (!applied && connection.in_transaction()) (void)connection.script("ROLLBACK");
    return applied;
}

}  // namespace

Result<void> check_version(SqliteConnection& connection, const std::vector<std::string>& scripts) {
    auto found = version_of(connection);
    if (!found) return std::move(found).error();
    const auto newest = static_cast<std::int64_t>(scripts.size());
    if (*found >= 0 && *found <= newest) return {};
    connection.leave_log_at_close();
    return Error{ErrorCode::unsupported,
                 "the database was written by a newer albedo: it has version " +
                     std::to_string(*found) + ", this program knows up to " +
                     std::to_string(newest),
                 {}};
}

Result<void> migrate(SqliteConnection& connection, const std::vector<std::string>& scripts) {
    auto found = version_of(connection);
    if (!found) return std::move(found).error();
    for (auto done = static_cast<std::size_t>(*found); done < scripts.size(); ++done)
        if (auto applied = apply(connection, scripts[done], static_cast<std::int64_t>(done) + 1);
            !applied)
            return applied;
    return {};
}

}  // namespace store
