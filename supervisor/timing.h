// The delays, limits and deadlines of the supervisor, in one table with their reasons.
#pragma once

#include <cstddef>

#include "shared/clock.h"

namespace supervisor {

struct Timing {
    using Milliseconds = shared::Milliseconds;

    // Restart policy: the first restart is free, a crash loop costs less and less.
    Milliseconds first_backoff{100};
    Milliseconds longest_backoff{30'000};
    Milliseconds healthy_after{60'000};  // so long in use, and the history is forgotten
    Milliseconds death_window{60'000};   // of the child's own life; see restart_policy.h
    std::size_t most_deaths = 10;        // more of them within the window: failed
    Milliseconds failed_for{300'000};

    // Watchdog. Children beat every 2.5 s: three beats in a row have to be missing.
    Milliseconds tick{1'000};
    Milliseconds late_tick{2'000};  // two own ticks further apart than this: we were not running
    Milliseconds hung_after{10'000};
    Milliseconds ready_within{20'000};  // a store to recover, on a slow disk

    // How children end.
    Milliseconds abort_wait{2'000};      // SIGABRT leaves a trace, then SIGKILL
    Milliseconds terminate_wait{1'000};  // an operator's restart: an agent holds nothing durable
    Milliseconds drain{5'000};
    Milliseconds drain_terminate{1'500};  // SIGTERM at 5 s, SIGKILL at 6.5 s, all gone at 7 s
    Milliseconds reap_wait{2'000};        // after SIGKILL: longer is a process stuck in the system

    Milliseconds lock_patience{2'000};  // a second supervisor looks at the home lock for so long

    /// For tests: every duration times `factor`.
    Timing scaled(double factor) const;
};

inline constexpr std::size_t kMaxAgents = 512;
inline constexpr int kFirstStartDeaths = 3;   // an api that never worked is not tried for ever
inline constexpr int kMaxAgentMessages = 16;  // in one life; a well-behaved agent says two
inline constexpr std::size_t kLastWordsBytes = 4096;  // newest bytes of a child's stderr
inline constexpr std::size_t kMaxCauseBytes = 512;
inline constexpr std::size_t kMaxHostBytes = 255;
inline constexpr std::size_t kMaxBlackBoxes = 50;
inline constexpr int kListenBacklog = 4096;

}  // namespace supervisor
