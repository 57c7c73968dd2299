#include "api/store/transcript_table.h"

#include <algorithm>
#include <limits>

namespace store {

using shared::Result;
using shared::SessionId;

std::string transcript_schema() {
    return "CREATE TABLE transcript (session TEXT NOT NULL"
           " REFERENCES sessions(id) ON DELETE CASCADE, seq INTEGER NOT NULL,"
           " at_ms INTEGER NOT NULL, kind TEXT NOT NULL, content TEXT NOT NULL,"
           " PRIMARY KEY (session, seq));";
}

Result<std::int64_t> append_transcript(Connection& connection, SessionId session,
                                       const StoredTranscriptRow& row) {
    std::int64_t seq = 1;
    auto read =
        connection.query("SELECT coalesce(max(seq), 0) + 1 FROM transcript WHERE session = ?",
                         {session.text()}, [&](const Row& newest) { seq = newest.integer(0); });
    if (!read) return std::move(read).error();
    auto added = connection.run("INSERT INTO transcript VALUES (?, ?, ?, ?, ?)",
                                {session.text(), seq, row.at_ms, row.kind, row.content});
    if (!added) return std::move(added).error();
    return seq;
}

Result<TranscriptPage> transcript_page(Connection& connection, SessionId session,
                                       std::int64_t before, std::size_t max_rows,
                                       std::size_t max_bytes) {
    constexpr auto kAny = std::numeric_limits<std::int64_t>::max();
    TranscriptPage page;
    std::int64_t oldest = before > 0 ? before : kAny;
    std::size_t bytes = 0;
    // Sizes first, so that a long transcript is not read to be thrown away.
    std::size_t rows = 0;
    auto sized = connection.query(
        "SELECT seq, length(CAST(content AS BLOB)) FROM transcript WHERE session = ? AND seq < ?"
        " ORDER BY seq DESC LIMIT ?",
        {session.text(), oldest, max_rows > 0 ? static_cast<std::int64_t>(max_rows) + 1 : kAny},
        [&](const Row& row) {
            if (page.more) return;
            const auto size = static_cast<std::size_t>(row.integer(1));
            const bool fits = (max_rows == 0 || rows < max_rows) &&
                              (max_bytes == 0 || rows == 0 || bytes + size <= max_bytes);
            if (!fits) {
                page.more = true;
                return;
            }
            ++rows;
            bytes += size;
            oldest = row.integer(0);
        });
    if (!sized) return std::move(sized).error();
    if (rows == 0) return page;
    auto read = connection.query(
        "SELECT seq, at_ms, kind, content FROM transcript WHERE session = ? AND seq >= ?"
        " AND seq < ? ORDER BY seq",
        {session.text(), oldest, before > 0 ? before : kAny}, [&](const Row& row) {
            page.rows.push_back({row.integer(0), row.integer(1), row.text(2), row.text(3)});
        });
    if (!read) return std::move(read).error();
    return page;
}

}  // namespace store
