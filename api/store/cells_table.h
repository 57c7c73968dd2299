// Table `cells`: every cell from the moment it was accepted, with its result. A cell that is queued
// or running here is the durable form of its execute frame. Store thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/store/database.h"
#include "shared/ids.h"
#include "shared/result.h"

namespace store {

enum class CellStatus : std::uint8_t { queued, running, ok, error, interrupted, lost };
const char* to_string(CellStatus status);
std::optional<CellStatus> cell_status(const std::string& text);
inline bool finished(CellStatus status) {
    return status != CellStatus::queued && status != CellStatus::running;
}

struct CellRow {
    shared::CellId id;
    shared::SessionId session;
    std::optional<std::string> code;  // absent: adopted from a kernel, its sender never heard of it
    std::int64_t timeout_ms = 0;      // 0: none
    std::int64_t background_ms = 0;   // 0: never
    CellStatus status = CellStatus::queued;
    int interrupt = 0;  // 1 asked, 2 asked with force
    std::int64_t created_ms = 0;
    std::int64_t started_at = 0;  // UTC milliseconds; 0: not yet
    std::int64_t ms = 0;
    std::string value;
    std::string error;   // JSON object, or empty
    std::string output;  // preview
    std::string images;  // JSON array, or empty
    bool truncated = false;
    std::uint64_t output_bytes = 0;
};

std::string cells_schema();
/// False when there is a cell with this id already; nothing was changed then.
shared::Result<bool> insert_cell(Connection& connection, const CellRow& row);
/// Code and limits of an adopted cell, once its sender repeats itself.
shared::Result<void> claim_cell(Connection& connection, const CellRow& row);
/// What became of it; makes the row if there is none (adopted).
shared::Result<void> save_cell(Connection& connection, const CellRow& row);
shared::Result<std::optional<CellRow>> find_cell(Connection& connection, shared::CellId id);
/// Those queued or running, of all sessions, in the order in which they were accepted.
shared::Result<std::vector<CellRow>> unfinished_cells(Connection& connection);
/// The newest `limit` of a session, newest first.
shared::Result<std::vector<CellRow>> recent_cells(Connection& connection, shared::SessionId session,
                                                  int limit);
shared::Result<std::optional<shared::CellId>> newest_cell_id(Connection& connection);

}  // namespace store
