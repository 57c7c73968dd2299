#include "supervisor/restart_policy.h"

#include <algorithm>

namespace supervisor {

RestartHistory with_death(RestartHistory history, const Life& life, const Timing& timing) {
    if (life.ready >= timing.healthy_after) history = {};
    history.lived += life.total;
    history.in_a_row += 1;
    history.deaths.push_back(history.lived);
    if (history.deaths.size() > timing.most_deaths + 1) history.deaths.pop_front();
    return history;
}

RestartDecision decide_restart(const RestartHistory& history, shared::TimePoint now,
                               const Timing& timing) {
    const bool too_many = history.deaths.size() > timing.most_deaths &&
                          history.deaths.back() - history.deaths.front() <= timing.death_window;
    if (too_many) return {true, now + timing.failed_for};
    if (history.in_a_row <= 1) return {false, now};
    auto wait = timing.first_backoff;
    for (int i = 2; i < history.in_a_row && wait < timing.longest_backoff; ++i) wait *= 2;
    return {false, now + std::min(wait, timing.longest_backoff)};
}

}  // namespace supervisor
