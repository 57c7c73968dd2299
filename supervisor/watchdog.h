// Who hangs. Pure: heartbeats and the times of our own ticks go in, a verdict comes out.
//
// A silence counts only while the supervisor itself was running. After a late tick of its own
// (suspend, a frozen or overloaded machine) every window starts anew, so a daemon that was stopped
// as a whole is not taken for a daemon full of hung children.
#pragma once

#include "shared/clock.h"
#include "supervisor/timing.h"

namespace supervisor {

/// The supervisor's own ticks: one for all children.
class OwnTicks {
  public:
    explicit OwnTicks(const Timing& timing) : timing_(timing) {}
    /// To be called once a tick. Answer: no silence from before this moment counts.
    shared::TimePoint tick(shared::TimePoint now);

  private:
    Timing timing_;
    shared::TimePoint last_{};
    shared::TimePoint trusted_since_{};
    bool ticked_ = false;
};

/// The beats of one child. Only the change of the value counts: what a child writes is not trusted.
class Heartbeat {
  public:
    void start(shared::TimePoint now);
    void look(shared::TimePoint now, shared::TimePoint value);
    /// How long the child has been silent while silence counted.
    shared::Milliseconds silence(shared::TimePoint now, shared::TimePoint trusted_since) const;

  private:
    shared::TimePoint value_{};
    shared::TimePoint changed_{};
};

}  // namespace supervisor
