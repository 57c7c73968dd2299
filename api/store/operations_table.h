// Table `operations`: receipts of what clients asked for under an id of their own (but cells, whose
// row is their receipt). A receipt outlives what it made. Store thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "api/store/database.h"
#include "shared/ids.h"
#include "shared/result.h"

namespace store {

struct OperationRow {
    shared::OperationId id;
    std::string kind;    // "session", "input"
    std::string intent;  // what was asked, canonical; another one under the same id is a conflict
    std::string result;  // JSON as answered
    std::int64_t created_ms = 0;
};

std::string operations_schema();
/// False when the id is taken; nothing was changed then.
shared::Result<bool> insert_operation(Connection& connection, const OperationRow& row);
shared::Result<std::optional<OperationRow>> find_operation(Connection& connection,
                                                           shared::OperationId id);
/// What became of it, for later askers.
shared::Result<void> set_operation_result(Connection& connection, shared::OperationId id,
                                          const std::string& result);
shared::Result<std::optional<shared::OperationId>> newest_operation_id(Connection& connection);
/// Receipts older than `before_ms` go, but for those of inputs that wait and of open turns.
shared::Result<void> expire_operations(Connection& connection, std::int64_t before_ms);

}  // namespace store
