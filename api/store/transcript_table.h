// Table `transcript`: the rows of each session's conversation, numbered from 1 within it. What the
// columns `kind` and `content` hold is sessions/transcript_json.h's matter. Store thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/store/database.h"
#include "shared/ids.h"
#include "shared/result.h"

namespace store {

struct StoredTranscriptRow {
    std::int64_t seq = 0;
    std::int64_t at_ms = 0;
    std::string kind;
    std::string content;
};

/// The newest rows that fit, oldest first; `more`: older ones were left out.
struct TranscriptPage {
    std::vector<StoredTranscriptRow> rows;
    bool more = false;
};

std::string transcript_schema();
/// Its seq. Errors: invalid when there is no such session.
shared::Result<std::int64_t> append_transcript(Connection& connection, shared::SessionId session,
                                               const StoredTranscriptRow& row);
/// Rows before `before` (0: all), at most `max_rows` (0: any) and about `max_bytes` of content (0:
/// any); always at least one, if there is one.
shared::Result<TranscriptPage> transcript_page(Connection& connection, shared::SessionId session,
                                               std::int64_t before, std::size_t max_rows,
                                               std::size_t max_bytes);

}  // namespace store
