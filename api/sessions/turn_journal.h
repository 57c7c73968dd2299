// The durable side of turns: each function is one transaction over inputs, turns, transcript and
// receipts, so that a crash at any instant leaves a state from which the turn goes on. For store
// closures; none keeps anything in memory.
//
// The receipt of a prompt is its row in `operations`. Whether the prompt is delivered is not
// written there: it is pending while its input waits, committed once `delivered` is set, and
// cancelled when neither holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/sessions/transcript.h"
#include "api/store/inputs_table.h"
#include "api/store/operations_table.h"
#include "api/store/transcript_table.h"
#include "shared/result.h"

namespace sessions::journal {

inline constexpr std::int64_t kWaitingInputs = 32;  // per session, the one being begun included

using Rows = std::vector<TranscriptRow>;

struct Admission {
    bool fresh = false;     // false: the receipt is that of an earlier request
    store::InputRow input;  // with its seq, if fresh
    std::string receipt;    // JSON as answered
};

/// Accepts a prompt, or finds that it was accepted before. `receipt`: JSON object to be answered
/// now and whenever the same is asked again. Errors: not_found (no such session), conflict (same
/// id, other intent; kWaitingInputs reached), expired (unknown and too old), storage.
shared::Result<Admission> admit(store::Connection& connection, const store::InputRow& input,
                                const std::string& intent, const std::string& receipt);

/// The earlier answer to this id and intent, if there is one. Errors: conflict, storage.
shared::Result<std::optional<std::string>> repeated(store::Connection& connection,
                                                    shared::OperationId operation,
                                                    const std::string& intent);

/// Takes an input from the queue into the transcript and opens its turn. Errors: conflict (it waits
/// no more), storage.
shared::Result<Rows> consume(store::Connection& connection, const store::InputRow& input);

/// Adds rows; given back with their numbers. Errors: invalid (no such session), storage.
shared::Result<Rows> append(store::Connection& connection, shared::SessionId session,
                            std::vector<RowContent> contents);

/// An answer of the model, and that the notes up to `notes_through` were told.
shared::Result<Rows> answered(store::Connection& connection, shared::SessionId session,
                              std::vector<RowContent> contents, std::int64_t notes_through);

/// Closes the turn: its last row, and the outcome in its receipt. `broken_off`: what the readers
/// saw of an answer that did not come to its end; so a text that stands last in an open turn is
/// whole.
shared::Result<Rows> finish(store::Connection& connection, shared::SessionId session,
                            const std::string& broken_off, const TurnCompletedRow& row);

/// The newest rows of a conversation that a model can be shown: whole turns, within a bound a good
/// deal over kMaxRequestBytes.
shared::Result<Rows> newest_rows(store::Connection& connection, shared::SessionId session);

/// Rows as stored, as rows of a transcript. Errors: storage.
shared::Result<Rows> rows_of(const std::vector<store::StoredTranscriptRow>& stored);

/// What GET /operations answers, but the blocking reason. Absent: no such operation.
struct OperationState {
    std::string delivery;  // "pending", "committed", "cancelled"
    std::string kind;
    std::string result;  // JSON
};
shared::Result<std::optional<OperationState>> operation_state(store::Connection& connection,
                                                              shared::OperationId operation);

}  // namespace sessions::journal
