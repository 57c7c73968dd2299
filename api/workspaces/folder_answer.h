// What a host said to a question about a folder (docs/PROTOCOL.md, "browse"), out of its JSON.
// Pure; the host is not believed in anything, not even in the types of its own fields.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "api/workspaces/location.h"
#include "shared/result.h"

namespace workspaces {

/// Whether a folder is there, as its host says now, past every cache and open connection.
struct Presence {
    enum class Kind { there, gone, unreachable, needs_auth, unanswered };
    Kind kind = Kind::unanswered;
    std::string detail;  // ssh's or the host's words; empty when there
};

/// The answer without its "ok"; `path` and `home` in it carry the location's prefix. Errors:
/// invalid, not_found, failed, each with the host's words; protocol, for what is no JSON object.
shared::Result<nlohmann::json> read_folder_answer(std::string_view answer,
                                                  const Location& location);

/// The answer to `stat`.
Presence read_presence(std::string_view answer);

}  // namespace workspaces
