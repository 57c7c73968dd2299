#include "supervisor/watchdog.h"

#include <algorithm>

namespace supervisor {

using shared::Milliseconds;
using shared::TimePoint;

TimePoint OwnTicks::tick(TimePoint now) {
    if (!ticked_ || now - last_ > timing_.late_tick) trusted_since_ = now;
    ticked_ = true;
    last_ = now;
    return trusted_since_;
}

void Heartbeat::start(TimePoint now) {
    value_ = {};
    changed_ = now;
}

void Heartbeat::look(TimePoint now, TimePoint value) {
    if (value == value_) return;
    value_ = value;
    changed_ = now;
}

Milliseconds Heartbeat::silence(TimePoint now, TimePoint trusted_since) const {
    return std::chrono::duration_cast<Milliseconds>(now - std::max(changed_, trusted_since));
}

}  // namespace supervisor
