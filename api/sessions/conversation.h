// What a session's prompts, its turn and its readers share, as it stands now. Guarded by the
// Monitor, but for `log`, which guards itself. Held by shared_ptr: a stream or a turn may outlast
// the session.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/providers/instructions.h"
#include "api/providers/model_request.h"
#include "api/sessions/event_log.h"
#include "api/store/inputs_table.h"
#include "shared/ids.h"

namespace sessions {

class Turn;

/// What a folder's files, links and memory say to the model. Made by whoever knows workspaces.
struct ProjectContext {
    std::vector<std::string> instructions;
    std::vector<providers::AdvertisedSkill> skills;
    std::vector<std::string> gone_links;
    std::vector<std::string> notes;
    std::string memory;
};

/// A request as it went to a model.
struct SentRequest {
    std::string provider;
    std::int64_t at_ms = 0;
    providers::ModelRequest request;
};

struct Conversation {
    Conversation(shared::SessionId id, std::string generation)
        : session(id), log(std::move(generation)) {}

    const shared::SessionId session;
    EventLog log;

    std::map<std::int64_t, store::InputRow> waiting;  // by seq; the one being begun included
    std::shared_ptr<Turn> turn;
    std::shared_ptr<const SentRequest> last_request;
    /// The run id of the kernel on record when this api started; empty: there was none.
    std::string kernel_at_start;
    /// The model was not told yet that this kernel carried on over the restart.
    bool tell_carried_on = false;
    bool removed = false;
    /// Something ended of which the model is to hear by a turn of its own, perhaps.
    bool wake_owed = false;
    bool waking = false;  // that turn is being admitted
};

}  // namespace sessions
