// What is believed about one host, and when it is asked again. Pure: time is an argument, nothing
// is contacted here.
//
// `state` is the last verdict and stays while the host is looked at again; `step` names what is
// going on. A verdict serves later callers for a while. In `needs_auth` nothing is tried by itself,
// since attempts with a wrong key lock accounts: only a person's request, a new control connection
// or news from the network wakes it.
#pragma once

#include <functional>

#include "hostagent/ssh_failure.h"
#include "shared/clock.h"
#include "shared/messages.h"

namespace hostagent {

inline constexpr shared::Milliseconds kReadyServes{60'000};
inline constexpr shared::Milliseconds kFailureServes{5'000};

class HostMachine {
  public:
    using Told = std::function<void(const shared::HostReport&)>;
    /// `told` hears every change of what a person can see.
    explicit HostMachine(Told told) : told_(std::move(told)) {}

    const shared::HostReport& report() const { return report_; }

    /// What the api remembers; only facts are taken, and only before the first verdict of our own.
    void remember(const shared::HostReport& known);
    void set_control_path(const std::string& path);

    void step(shared::HostStep step);
    /// The host answered; `facts` are its own words about itself.
    void ready(const shared::HostReport& facts, shared::TimePoint now);
    void staged(const std::string& digest);
    /// It did not, or cannot serve.
    void failed(const Verdict& verdict, shared::TimePoint now);
    /// The network changed, or the host answered something else: failures are not believed any
    /// longer.
    void news();
    /// What was found is not there: the host is asked anew at the next need.
    void doubt() { checked_ = false; }

    /// Whether the last verdict may be given instead of asking.
    bool fresh_enough(shared::TimePoint now) const;
    /// Whether attempts that no person asked for have to wait.
    bool quiet() const { return checked_ && report_.state == shared::HostState::needs_auth; }

  private:
    void changed(const shared::HostReport& before);

    Told told_;
    shared::HostReport report_;
    bool checked_ = false;  // a verdict of this agent's own, still believed
    shared::TimePoint checked_at_{};
};

}  // namespace hostagent
