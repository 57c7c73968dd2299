// Tables `inputs` (prompts accepted and not begun, in order), `turns` (the turn that each session
// is in) and `model_notes` (what a model is told once, with its next request). All go with their
// session. Store thread only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/store/database.h"
#include "shared/ids.h"
#include "shared/result.h"

namespace store {

struct InputRow {
    std::int64_t seq = 0;  // orders all inputs, never used twice; given by insert_input()
    shared::OperationId operation;
    shared::SessionId session;
    std::string text;           // skills resolved: what the model will read
    std::string client_id;      // echoed only
    std::string submission_id;  // the client's own name for it
    std::string source;         // "user", "skill", "continue"
    std::int64_t created_ms = 0;
};

/// An open turn; its input is consumed and stands in the transcript.
struct TurnRow {
    shared::SessionId session;
    shared::OperationId operation;
    std::string submission_id;
    bool interrupted = false;
    std::int64_t started_ms = 0;
};

struct ModelNoteRow {
    std::int64_t id = 0;
    std::string text;
};

std::string inputs_schema();

/// The seq it got. Errors: invalid when there is no such session.
shared::Result<std::int64_t> insert_input(Connection& connection, const InputRow& row);
shared::Result<std::int64_t> count_inputs(Connection& connection, shared::SessionId session);
shared::Result<bool> has_input(Connection& connection, shared::OperationId operation);
/// False when it waits no more.
shared::Result<bool> delete_input(Connection& connection, shared::OperationId operation);
/// Of all sessions, in order.
shared::Result<std::vector<InputRow>> all_inputs(Connection& connection);

shared::Result<void> insert_turn(Connection& connection, const TurnRow& row);
shared::Result<void> mark_interrupted(Connection& connection, shared::SessionId session,
                                      shared::OperationId operation);
shared::Result<void> delete_turn(Connection& connection, shared::SessionId session);
shared::Result<std::vector<TurnRow>> all_turns(Connection& connection);

shared::Result<void> add_model_note(Connection& connection, shared::SessionId session,
                                    const std::string& text);
/// In order.
shared::Result<std::vector<ModelNoteRow>> model_notes(Connection& connection,
                                                      shared::SessionId session);
/// Those up to and with `through` have been told.
shared::Result<void> delete_model_notes(Connection& connection, shared::SessionId session,
                                        std::int64_t through);

}  // namespace store
