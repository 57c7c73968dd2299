// Whether, and when, a failed request to a model is sent again. Pure.
//
// Only what passes by itself is tried again: no connection, a cut or silent stream, 429, 502, 503,
// 504, 529, and an error event that says so. Never once output reached the transcript's readers.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

#include "api/providers/model_event.h"
#include "shared/clock.h"

namespace providers {

inline constexpr int kMaxAttempts = 6;                      // the first included
inline constexpr shared::Milliseconds kFirstBackoff{1000};  // then doubling
inline constexpr shared::Milliseconds kMaxBackoff{30'000};
inline constexpr shared::Milliseconds kMaxRetryAfter{120'000};  // longer ones are cut to this

/// Pause before the next attempt, or nothing if there should be none. `attempts` were made so far
/// (at least 1); `jitter` in [0, 1) spreads waiting clients: the backoff is shortened by up to
/// half, what the provider asked for is lengthened by up to a tenth.
std::optional<shared::Milliseconds> retry_pause(const Failure& failure, int attempts,
                                                double jitter);

/// A Retry-After header: seconds, or an HTTP date seen from `wall_now_ms`. Nothing for garbage;
/// a time that has passed is 0; never more than kMaxRetryAfter.
std::optional<shared::Milliseconds> parse_retry_after(std::string_view value,
                                                      std::int64_t wall_now_ms);

}  // namespace providers
