#include "supervisor/child_machine.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace supervisor {

using shared::EndPlan;
using shared::Milliseconds;
using shared::Steering;
using shared::TimePoint;

const char* to_string(ChildState state) {
    switch (state) {
        case ChildState::stopped:
            return "stopped";
        case ChildState::starting:
            return "starting";
        case ChildState::up:
            return "up";
        case ChildState::ending:
            return "ending";
        case ChildState::waiting:
            return "waiting";
        case ChildState::failed:
            return "failed";
        case ChildState::quarantined:
            return "quarantined";
    }
    return "";
}

bool ChildMachine::running() const {
    return state_ == ChildState::starting || state_ == ChildState::up ||
           state_ == ChildState::ending;
}

std::optional<TimePoint> ChildMachine::next() const {
    if (closed_ || (state_ != ChildState::waiting && state_ != ChildState::failed)) return {};
    return until_;
}

Actions ChildMachine::want() {
    if (closed_ || state_ != ChildState::stopped) return {};
    return fresh_start();
}

Actions ChildMachine::fresh_start() {
    history_ = {};
    return {.start = true, .end = {}};
}

void ChildMachine::started(TimePoint now) {
    state_ = ChildState::starting;
    started_ = now;
    ready_.reset();
    then_ = Then::policy;
    heartbeat_.start(now);
    starts_ += 1;
}

void ChildMachine::ready(TimePoint now) {
    if (state_ != ChildState::starting) return;
    state_ = ChildState::up;
    ready_ = now;
    heartbeat_.start(now);
}

Actions ChildMachine::died(const std::string& how, TimePoint now) {
    const bool was_running = running();
    last_cause_ = ending_cause_.empty() ? how : ending_cause_ + ", " + how;
    last_cause_.resize(std::min(last_cause_.size(), kMaxCauseBytes));
    ending_cause_.clear();
    const Then then = std::exchange(then_, Then::policy);
    last_unasked_ = then == Then::policy;
    if (closed_ || then == Then::stop || then == Then::nothing) {
        state_ = ChildState::stopped;
        last_unasked_ = last_unasked_ && !closed_;
        return {};
    }
    if (then == Then::quarantine) {
        state_ = ChildState::quarantined;
        return {};
    }
    if (then == Then::start) {
        history_ = {};
        state_ = ChildState::waiting;
        until_ = now;
        return due(now);
    }
    Life life;
    if (was_running) {
        life.total = std::chrono::duration_cast<Milliseconds>(now - started_);
        if (ready_) life.ready = std::chrono::duration_cast<Milliseconds>(now - *ready_);
    }
    history_ = with_death(std::move(history_), life, timing_);
    const RestartDecision decision = decide_restart(history_, now, timing_);
    state_ = decision.failed ? ChildState::failed : ChildState::waiting;
    until_ = decision.at;
    return due(now);
}

Actions ChildMachine::due(TimePoint now) {
    const auto when = next();
    if (!when || now < *when) return {};
    if (state_ == ChildState::failed) return fresh_start();
    return {.start = true, .end = {}};
}

Actions ChildMachine::look(TimePoint now, TimePoint trusted_since, TimePoint beat) {
    heartbeat_.look(now, beat);
    const EndPlan plan{.ask = Milliseconds{0},
                       .terminate = timing_.abort_wait,
                       .kill = timing_.reap_wait,
                       .terminate_signal = SIGABRT};
    if (state_ == ChildState::up && heartbeat_.silence(now, trusted_since) >= timing_.hung_after) {
        return end("hung", Then::policy, plan);
    }
    if (state_ == ChildState::starting &&
        now - std::max(started_, trusted_since) >= timing_.ready_within) {
        return end("never became ready", Then::policy, plan);
    }
    return {};
}

Actions ChildMachine::broke_rules(std::string cause) {
    if (state_ != ChildState::starting && state_ != ChildState::up) return {};
    return end(std::move(cause), Then::policy, EndPlan{.kill = timing_.reap_wait});
}

Actions ChildMachine::end(std::string cause, Then then, const EndPlan& plan) {
    state_ = ChildState::ending;
    ending_cause_ = std::move(cause);
    then_ = then;
    return {.start = false, .end = plan};
}

Actions ChildMachine::hold(std::string cause, Then then) {
    if (running()) {
        return end(std::move(cause), then,
                   EndPlan{.terminate = timing_.terminate_wait, .kill = timing_.reap_wait});
    }
    state_ = then == Then::stop ? ChildState::stopped : ChildState::quarantined;
    last_cause_ = std::move(cause);
    return {};
}

shared::Result<Actions> ChildMachine::steer(Steering steering) {
    const auto conflict = [](const char* words) {
        return shared::Error{shared::ErrorCode::conflict, words, {}};
    };
    if (closed_) return conflict("the daemon is stopping");
    switch (steering) {
        case Steering::restart:
            if (!running()) return fresh_start();
            return end("restarted by an operator", Then::start,
                       EndPlan{.terminate = timing_.terminate_wait, .kill = timing_.reap_wait});
        case Steering::stop:
            if (state_ == ChildState::stopped) return conflict("it is stopped already");
            return hold("stopped by an operator", Then::stop);
        case Steering::quarantine:
            if (state_ == ChildState::quarantined) return conflict("it is quarantined already");
            return hold("quarantined by an operator", Then::quarantine);
        case Steering::release:
            if (state_ == ChildState::ending) {
                then_ = Then::start;
                return Actions{};
            }
            if (running() || state_ == ChildState::waiting) return conflict("it is not held");
            return fresh_start();
        case Steering::kill:
            if (!running()) return conflict("it does not run");
            // An order that is on its way stays: what was to follow still follows.
            return end("killed by an operator", state_ == ChildState::ending ? then_ : Then::policy,
                       EndPlan{.kill = timing_.reap_wait});
    }
    return conflict("unknown order");
}

Actions ChildMachine::drain() {
    closed_ = true;
    if (!running()) {
        state_ = ChildState::stopped;
        return {};
    }
    return end(
        "the daemon stops", Then::nothing,
        EndPlan{
            .ask = timing_.drain, .terminate = timing_.drain_terminate, .kill = timing_.reap_wait});
}

Actions ChildMachine::kill_for_good() {
    closed_ = true;
    if (!running()) {
        state_ = ChildState::stopped;
        return {};
    }
    return end("the daemon stops at once", Then::nothing, EndPlan{.kill = timing_.reap_wait});
}

}  // namespace supervisor
