// Questions about a folder, asked of the machine it is on: `list`, `repo`, `preview`, `gather` and
// "is it there now". One way for here and elsewhere: the Python on that host answers, through its
// hostagent. Blocks until the deadline at most; for HTTP threads and turns, never for the loop.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <variant>
#include <vector>

#include "api/agents/hosts.h"
#include "api/workspaces/folder_answer.h"
#include "api/workspaces/location.h"
#include "shared/clock.h"
#include "shared/messages.h"
#include "shared/result.h"

namespace workspaces {

inline constexpr shared::Milliseconds kBrowseDeadline{30'000};
inline constexpr shared::Milliseconds kPresenceDeadline{5'000};

/// A failure to look, with what is known of the host.
struct LookError {
    shared::Error error;
    shared::HostReport host;
};

class Folders {
  public:
    explicit Folders(agents::Hosts& hosts) : hosts_(hosts) {}

    /// The answer's JSON; `path` and `home` in it carry the location's prefix.
    /// Errors: invalid, not_found, and those of a host that is not ready or does not answer.
    std::variant<nlohmann::json, LookError> ask(const std::string& op, const Location& location,
                                                shared::TimePoint deadline);

    /// Asks for each location side by side; the answers are in the same order.
    std::vector<Presence> presence(const std::vector<Location>& locations,
                                   shared::TimePoint deadline);

  private:
    Presence look(const Location& location, shared::TimePoint deadline);
    agents::Hosts& hosts_;
};

}  // namespace workspaces
