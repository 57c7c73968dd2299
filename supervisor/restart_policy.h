// When a child that died is started again: a pure function of its deaths and the time.
//
// The first restart is at once, then after 100 ms doubling to 30 s. 60 s in use forget the past.
// More than 10 deaths within 60 s are a failure: no restart for 5 minutes, or until an operator
// asks. Those 60 s are of the child's own life. Time spent waiting for a restart does not count:
// with it, a child that lives for a second each time would be restarted for ever.
#pragma once

#include <deque>

#include "shared/clock.h"
#include "supervisor/timing.h"

namespace supervisor {

/// What the policy has to know of the past.
struct RestartHistory {
    std::deque<shared::Milliseconds>
        deaths;                     // in time lived, oldest first, most_deaths + 1 at most
    shared::Milliseconds lived{0};  // sum of all lives since the history began
    int in_a_row = 0;               // deaths since the last time it was healthy
};

struct RestartDecision {
    bool failed = false;
    shared::TimePoint at;  // when to start it again
};

/// A life that ended: how long from spawn to death, and how much of that it was ready.
struct Life {
    shared::Milliseconds total{0};
    shared::Milliseconds ready{0};
};

/// The history after one more death. A failure starts the next history afresh.
RestartHistory with_death(RestartHistory history, const Life& life, const Timing& timing);
/// What to do at `now`, right after the newest death in `history`.
RestartDecision decide_restart(const RestartHistory& history, shared::TimePoint now,
                               const Timing& timing);

}  // namespace supervisor
