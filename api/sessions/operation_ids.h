// Ids that clients make for what they ask, so that asking twice does it once.
#pragma once

#include <chrono>
#include <string>

#include "shared/ids.h"
#include "shared/result.h"

namespace sessions {

inline constexpr std::chrono::minutes kIdAhead{5};    // clocks of clients run fast
inline constexpr std::chrono::hours kIdKept{7 * 24};  // receipts are kept so long

/// Errors: invalid (no UUID of version 7, or made more than kIdAhead ahead of our clock).
inline shared::Result<shared::OperationId> parse_operation_id(
    const std::string& text, std::chrono::system_clock::time_point now) {
    const auto id = shared::OperationId::parse(text);
    if (!id || id->uuid.version() != 7)
        return shared::Error{
            shared::ErrorCode::invalid, "operationId must be a UUID of version 7", {}};
    if (id->uuid.made_at() > now + kIdAhead)
        return shared::Error{shared::ErrorCode::invalid,
                             "operationId was made more than 5 minutes ahead of the daemon's clock",
                             {}};
    return *id;
}

/// An id that is unknown and so old that its receipt may be gone already.
inline bool too_old(shared::OperationId id, std::chrono::system_clock::time_point now) {
    return id.uuid.made_at() < now - kIdKept;
}

}  // namespace sessions
