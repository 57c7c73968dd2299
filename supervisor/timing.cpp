#include "supervisor/timing.h"

namespace supervisor {

Timing Timing::scaled(double factor) const {
    Timing result = *this;
    for (Milliseconds* each :
         {&result.first_backoff, &result.longest_backoff, &result.healthy_after,
          &result.death_window, &result.failed_for, &result.tick, &result.late_tick,
          &result.hung_after, &result.ready_within, &result.abort_wait, &result.terminate_wait,
          &result.drain, &result.drain_terminate, &result.reap_wait, &result.lock_patience}) {
        *each = std::chrono::duration_cast<Milliseconds>(*each * factor);
    }
    return result;
}

}  // namespace supervisor
