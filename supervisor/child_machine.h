// The life of one child as states, events and actions. Pure: no process, no clock, no I/O.
//
//   stopped --want--> starting --ready--> up
//   starting, up --death--> waiting (policy) --time--> starting
//                      \--> failed (policy) --5 min or an operator--> starting
//   starting, up --hung, steered, drained--> ending --death--> whatever was to follow
//   any --quarantine--> quarantined --release--> starting
//
// The owner does what the Actions say, and reports: started(), ready(), died(). A child that could
// not be spawned died. next() is when due() wants to be called.
#pragma once

#include <optional>
#include <string>

#include "shared/child_process.h"
#include "shared/control_messages.h"
#include "shared/result.h"
#include "supervisor/restart_policy.h"
#include "supervisor/watchdog.h"

namespace supervisor {

enum class ChildState : std::uint8_t {
    stopped,
    starting,
    up,
    ending,
    waiting,
    failed,
    quarantined,
};
/// As it stands in ProcessInfo: "waiting".
const char* to_string(ChildState state);

struct Actions {
    bool start = false;                  // spawn it now, then started() or died()
    std::optional<shared::EndPlan> end;  // end the running process by this plan; a newer one wins
};

class ChildMachine {
  public:
    explicit ChildMachine(const Timing& timing) : timing_(timing) {}

    /// Somebody needs this child. Nothing happens unless it is stopped.
    Actions want();
    void started(shared::TimePoint now);
    void ready(shared::TimePoint now);
    /// The process ended (`how` in words), or could not be started.
    Actions died(const std::string& how, shared::TimePoint now);
    /// Once a tick, with the child's newest heartbeat and what OwnTicks said.
    Actions look(shared::TimePoint now, shared::TimePoint trusted_since, shared::TimePoint beat);
    /// The time that next() named has come.
    Actions due(shared::TimePoint now);
    /// An operator's wish. Errors: conflict, when it makes no sense in this state.
    shared::Result<Actions> steer(shared::Steering steering);
    /// It broke a rule of the control socket: ended at once, then policy.
    Actions broke_rules(std::string cause);
    /// The daemon stops: no start from now on, by the plan of the drain.
    Actions drain();
    /// As drain(), at once.
    Actions kill_for_good();

    ChildState state() const { return state_; }
    bool running() const;
    bool failed() const { return state_ == ChildState::failed; }
    bool quarantined() const { return state_ == ChildState::quarantined; }
    /// Down by an operator's order.
    bool held() const { return quarantined() || state_ == ChildState::stopped; }
    std::optional<shared::TimePoint> next() const;
    std::uint32_t restarts() const { return starts_ > 0 ? starts_ - 1 : 0; }
    /// Why it died last; empty if it never did.
    const std::string& last_cause() const { return last_cause_; }
    /// Whether the newest death was one that nobody asked for.
    bool last_death_unasked() const { return last_unasked_; }
    shared::Milliseconds silence(shared::TimePoint now) const {
        return heartbeat_.silence(now, {});
    }

  private:
    enum class Then : std::uint8_t { policy, start, stop, quarantine, nothing };
    Actions end(std::string cause, Then then, const shared::EndPlan& plan);
    Actions hold(std::string cause, Then then);
    Actions fresh_start();

    Timing timing_;
    ChildState state_ = ChildState::stopped;
    RestartHistory history_;
    Heartbeat heartbeat_;
    shared::TimePoint started_{};
    std::optional<shared::TimePoint> ready_;
    shared::TimePoint until_{};  // in waiting and failed
    Then then_ = Then::policy;   // what follows the death of a child that is ending
    bool closed_ = false;        // the daemon stops
    std::string ending_cause_;
    std::string last_cause_;
    bool last_unasked_ = false;
    std::uint32_t starts_ = 0;
};

}  // namespace supervisor
