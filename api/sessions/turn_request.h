// The request that a turn sends to the model: where the kernel is, what the folder says, what has
// happened, the conversation.
#pragma once

#include <string>
#include <vector>

#include "api/providers/model_request.h"
#include "api/sessions/conversation.h"
#include "api/sessions/sessions.h"
#include "api/sessions/transcript.h"

namespace sessions {

struct RequestParts {
    store::SessionRow session;
    shared::HostReport host;
    std::string model;
    std::vector<std::string> notes;  // told once
};

/// Pure.
providers::ModelRequest make_request(const RequestParts& parts, const ProjectContext& project,
                                     const Transcript& transcript);

/// That the kernel carried on over a restart of the daemon, and what runs there; the Monitor is
/// held.
std::string carried_on_note(const Session& session);

/// The result of a cell as the model and the transcript's readers get it: JSON as text. The Monitor
/// is held. `note`: words to go with it, or empty; `status`: in place of the cell's own, or empty.
std::string tool_result(const LiveCell& cell, const std::string& status, const std::string& note);

}  // namespace sessions
