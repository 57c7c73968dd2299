// The durable rows of a session's conversation, and what a model is shown of them. Pure: the store
// keeps the rows, the turn appends them.
//
// A call is open from its row until its result's row. However the rows end (crash, cancel),
// `render` gives a request that every provider accepts: each call has exactly one result, ids are
// unique, and what was left open is told as of unknown outcome.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "api/providers/model_request.h"
#include "shared/ids.h"

namespace sessions {

// What one request may hold; older turns are left out whole, with a note in their place.
inline constexpr std::size_t kMaxRequestBytes = 2 << 20;
// What the model sees of one result. A cell's own preview is at most 64 KiB.
inline constexpr std::size_t kMaxResultBytes = 96 << 10;
// As chat and response protocols bound a call's id.
inline constexpr std::size_t kMaxCallIdBytes = 64;

struct UserRow {
    std::string text;
    std::string operation_id;
    std::string client_id;  // echoed only
    std::string source;     // "user", "daemon restart", ...
};
struct TextRow {
    std::string text;
};
struct ThinkingRow {
    std::string text;
    std::int64_t elapsed_ms = 0;
};
struct ToolCallRow {
    std::string call_id;  // as the provider gave it: may repeat, may be empty
    std::string name;
    std::string arguments;
    std::optional<shared::CellId> cell;  // the operation that runs it; none if it cannot run
};
struct ToolResultRow {
    std::int64_t call = 0;  // seq of the call's row
    std::string name;
    std::string result;  // JSON as text
};
/// For people; the model does not see it.
struct NoteRow {
    std::string text;
};
struct TurnCompletedRow {
    std::string operation_id;
    std::string outcome;  // "completed", "interrupted", "failed"
    std::string message;  // why it failed
};

using RowContent = std::variant<UserRow, TextRow, ThinkingRow, ToolCallRow, ToolResultRow, NoteRow,
                                TurnCompletedRow>;

struct TranscriptRow {
    std::int64_t seq = 0;  // from 1, by one
    std::int64_t at_ms = 0;
    RowContent content;
};

class Transcript {
  public:
    Transcript() = default;
    /// Rows as stored, in order.
    explicit Transcript(std::vector<TranscriptRow> rows) : rows_(std::move(rows)) {}

    const std::vector<TranscriptRow>& rows() const { return rows_; }
    const TranscriptRow& append(RowContent content, std::int64_t at_ms);
    /// A row that has its number already, higher than all before.
    void add(TranscriptRow row) { rows_.push_back(std::move(row)); }
    /// Calls without a result, in order.
    std::vector<const TranscriptRow*> open_calls() const;

    /// What the model is shown. The last item is the newest row's: a turn's first request ends in
    /// the user's message.
    std::vector<providers::Item> render(std::size_t max_bytes = kMaxRequestBytes) const;

  private:
    std::vector<TranscriptRow> rows_;
};

}  // namespace sessions
