#include "api/store/cells_table.h"

#include <utility>

namespace store {

using shared::Result;

namespace {
constexpr std::pair<CellStatus, const char*> kStatuses[] = {
    {CellStatus::queued, "queued"},
    {CellStatus::running, "running"},
    {CellStatus::ok, "ok"},
    {CellStatus::error, "error"},
    {CellStatus::interrupted, "interrupted"},
    {CellStatus::lost, "lost"}};

constexpr const char* kColumns =
    "SELECT id, session, code, timeout_ms, background_ms, status, interrupt, created_ms, "
    "started_at,"
    " ms, value, error, output, images, truncated, output_bytes FROM cells ";

std::optional<CellRow> cell_of(const Row& row) {
    const auto id = shared::CellId::parse(row.text(0));
    const auto session = shared::SessionId::parse(row.text(1));
    const auto status = cell_status(row.text(5));
    if (!id || !session || !status) return std::nullopt;
    CellRow cell;
    cell.id = *id;
    cell.session = *session;
    cell.code = row.optional_text(2);
    cell.timeout_ms = row.integer(3);
    cell.background_ms = row.integer(4);
    cell.status = *status;
    cell.interrupt = static_cast<int>(row.integer(6));
    cell.created_ms = row.integer(7);
    cell.started_at = row.integer(8);
    cell.ms = row.integer(9);
    cell.value = row.text(10);
    cell.error = row.text(11);
    cell.output = row.text(12);
    cell.images = row.text(13);
    cell.truncated = row.integer(14) != 0;
    cell.output_bytes = static_cast<std::uint64_t>(row.integer(15));
    return cell;
}

Result<std::vector<CellRow>> read_cells(Connection& connection, const std::string& where,
                                        const Values& values) {
    std::vector<CellRow> cells;
    auto read = connection.query(kColumns + where, values, [&](const Row& row) {
        if (auto cell = cell_of(row)) cells.push_back(std::move(*cell));
    });
    if (!read) return std::move(read).error();
    return cells;
}

Result<void> nothing(Result<std::int64_t> changed) {
    if (!changed) return std::move(changed).error();
    return {};
}
}  // namespace

const char* to_string(CellStatus status) {
    for (const auto& [value, text] : kStatuses)
        if (value == status) return text;
    return "lost";
}

std::optional<CellStatus> cell_status(const std::string& text) {
    for (const auto& [value, known] : kStatuses)
        if (text == known) return value;
    return std::nullopt;
}

std::string cells_schema() {
    return "CREATE TABLE cells (position INTEGER PRIMARY KEY, id TEXT NOT NULL "
           "UNIQUE,"
           " session TEXT NOT NULL, code TEXT, timeout_ms INTEGER NOT NULL,"
           " background_ms INTEGER NOT NULL, status TEXT NOT NULL, interrupt INTEGER NOT NULL,"
           " created_ms INTEGER NOT NULL, started_at INTEGER NOT NULL, ms INTEGER NOT NULL,"
           " value TEXT NOT NULL, error TEXT NOT NULL, output TEXT NOT NULL, images TEXT NOT NULL,"
           " truncated INTEGER NOT NULL, output_bytes INTEGER NOT NULL);"
           "CREATE INDEX cells_by_session ON cells (session, position);"
           "CREATE INDEX cells_unfinished ON cells (position) WHERE status IN ('queued', "
           "'running');";
}

Result<bool> insert_cell(Connection& connection, const CellRow& row) {
    auto added = connection.run(
        "INSERT INTO cells (id, session, code, timeout_ms, background_ms, status, interrupt,"
        " created_ms, started_at, ms, value, error, output, images, truncated, output_bytes)"
        " VALUES (?, ?, ?, ?, ?, ?, 0, ?, 0, 0, '', '', '', '', 0, 0) ON CONFLICT (id) DO NOTHING",
        {row.id.text(), row.session.text(), row.code, row.timeout_ms, row.background_ms,
         to_string(row.status), row.created_ms});
    if (!added) return std::move(added).error();
    return *added > 0;
}

Result<void> claim_cell(Connection& connection, const CellRow& row) {
    return nothing(
        connection.run("UPDATE cells SET code = ?, timeout_ms = ?, background_ms = ? WHERE id = ? "
                       "AND code IS NULL",
                       {row.code, row.timeout_ms, row.background_ms, row.id.text()}));
}

Result<void> save_cell(Connection& connection, const CellRow& row) {
    return nothing(connection.run(
        "INSERT INTO cells (id, session, code, timeout_ms, background_ms, status, interrupt,"
        " created_ms, started_at, ms, value, error, output, images, truncated, output_bytes)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET status = excluded.status, interrupt = excluded.interrupt,"
        " started_at = excluded.started_at, ms = excluded.ms, value = excluded.value,"
        " error = excluded.error, output = excluded.output, images = excluded.images,"
        " truncated = excluded.truncated, output_bytes = excluded.output_bytes"
        " WHERE session = excluded.session",
        {row.id.text(), row.session.text(), row.code, row.timeout_ms, row.background_ms,
         to_string(row.status), row.interrupt, row.created_ms, row.started_at, row.ms, row.value,
         row.error, row.output, row.images, row.truncated, row.output_bytes}));
}

Result<std::optional<CellRow>> find_cell(Connection& connection, shared::CellId id) {
    auto cells = read_cells(connection, "WHERE id = ?", {id.text()});
    if (!cells) return std::move(cells).error();
    if (cells->empty()) return std::optional<CellRow>();
    return std::optional<CellRow>(std::move(cells->front()));
}

Result<std::vector<CellRow>> unfinished_cells(Connection& connection) {
    return read_cells(connection, "WHERE status IN ('queued', 'running') ORDER BY position", {});
}

Result<std::vector<CellRow>> recent_cells(Connection& connection, shared::SessionId session,
                                          int limit) {
    return read_cells(connection, "WHERE session = ? ORDER BY position DESC LIMIT ?",
                      {session.text(), limit});
}

Result<std::optional<shared::CellId>> newest_cell_id(Connection& connection) {
    std::optional<shared::CellId> id;
    auto read = connection.query("SELECT max(id) FROM cells", {},
                                 [&](const Row& row) { id = shared::CellId::parse(row.text(0)); });
    if (!read) return std::move(read).error();
    return id;
}

}  // namespace store
