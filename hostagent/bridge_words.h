// The JSON that bridge and agent say to each other (docs/PROTOCOL.md, "Bridge"). Pure; what comes
// from the bridge is untrusted.
#pragma once

#include <string>
#include <string_view>

#include "shared/messages.h"
#include "shared/result.h"

namespace hostagent {

/// The facts of a `ready` frame. Errors: unsupported (another protocol), protocol.
shared::Result<shared::HostReport> read_ready(std::string_view payload);

/// The run directory of an `opened` frame; empty if it names none.
std::string read_opened(std::string_view payload);

struct Closed {
    shared::CloseReason reason = shared::CloseReason::dropped;
    std::string detail;
};
/// What does not parse is a dropped connection.
Closed read_closed(std::string_view payload);

}  // namespace hostagent
