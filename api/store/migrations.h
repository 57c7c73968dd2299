// Bringing a database to the newest version of its tables: scripts that are only ever appended to,
// each applied once, in one transaction with the number that says so.
#pragma once

#include <string>
#include <vector>

#include "api/store/sqlite_connection.h"
#include "shared/result.h"

namespace store {

/// Errors: unsupported when the file is newer than the scripts: both versions named, nothing
/// changed; storage; unavailable.
shared::Result<void> check_version(SqliteConnection& connection,
                                   const std::vector<std::string>& scripts);

/// Script i (from 0) brings version i to i + 1; a killed process leaves a whole version.
/// After check_version(). Errors: storage; unavailable.
shared::Result<void> migrate(SqliteConnection& connection, const std::vector<std::string>& scripts);

}  // namespace store
