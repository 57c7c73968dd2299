// The two JSON forms of a transcript's row: as stored, and as an event of the session's stream.
// Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "api/sessions/transcript.h"
#include "shared/result.h"

namespace sessions {

/// The column `kind` of a stored row.
const char* kind_of(const RowContent& content);
/// The content as stored beside it.
std::string stored_form(const RowContent& content);
/// Errors: storage, for a kind or a content that this version cannot read.
shared::Result<RowContent> from_stored_form(std::string_view kind, std::string_view text);

/// The event, with `row` = seq and `at` = ms. Types: `user`, `text`, `thinking`, `tool_call` {name,
/// arguments, call_id, cell}: a call that began; `tool` {name, call, result = JSON as text}: one
/// that ended; `note`, `turn_completed` {operationId, outcome, message}.
std::string event_form(const TranscriptRow& row);

/// Events of what is under way and not in the transcript: `text_delta`, `thinking_delta`.
std::string delta_event(const char* type, std::string_view text);
/// `phase` {phase, reason, attempt, retryInMs}: what the turn waits for.
std::string phase_event(const char* phase, std::string_view reason, int attempt,
                        std::int64_t retry_in_ms);
/// `job` {job, state, pid, command, exit_code, end, ms}: one began or ended.
std::string job_event(const nlohmann::json& job);

}  // namespace sessions
