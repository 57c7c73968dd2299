// The two clocks. Deadlines and timers use the monotonic one, which all processes of this machine
// share; the wall clock is for people and for ids only.
#pragma once

#include <chrono>
#include <cstdint>

namespace shared {

using Monotonic = std::chrono::steady_clock;  // CLOCK_MONOTONIC: the same in every process here
using TimePoint = Monotonic::time_point;
using Milliseconds = std::chrono::milliseconds;

/// Milliseconds of CLOCK_MONOTONIC, the form in which a deadline travels in a message.
inline std::int64_t monotonic_ms(TimePoint when = Monotonic::now()) {
    return std::chrono::duration_cast<Milliseconds>(when.time_since_epoch()).count();
}
inline TimePoint from_monotonic_ms(std::int64_t ms) {
    return TimePoint(Milliseconds(ms));
}

/// Milliseconds since 1970 in UTC, for display and storage.
inline std::int64_t wall_ms() {
    return std::chrono::duration_cast<Milliseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

}  // namespace shared
