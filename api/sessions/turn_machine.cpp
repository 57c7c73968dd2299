#include "api/sessions/turn_machine.h"

#include "api/providers/retry.h"

namespace sessions {

using namespace turn;
using Phase = TurnMachine::Phase;

struct TurnMachine::Step {
    TurnMachine& turn;
    std::vector<Action>& actions;
    shared::TimePoint now;

    void operator()(const Start&) {
        if (turn.phase_ == Phase::queued) actions.push_back(CheckReady{});
    }

    void operator()(const Resumed& event) {
        if (turn.phase_ != Phase::queued) return;
        // A kernel was there for these calls; whether it still is, running them will tell.
        turn.calls_.assign(event.open_calls.begin(), event.open_calls.end());
        turn.resumed_ = true;
        if (turn.calls_.empty())
            actions.push_back(CheckReady{});
        else
            turn.next_call(actions);
    }

    void operator()(const Ready&) {
        if (turn.phase_ != Phase::queued && turn.phase_ != Phase::blocked) return;
        turn.attempt_ = 0;
        turn.send_request(actions);
    }

    void operator()(const Blocked& event) {
        if (turn.phase_ != Phase::queued && turn.phase_ != Phase::blocked) return;
        const bool is_news = turn.phase_ != Phase::blocked || turn.reason_ != event.reason;
        turn.phase_ = Phase::blocked;
        turn.reason_ = event.reason;
        turn.retry_at_ = now + kBlockedRetry;
        if (is_news) actions.push_back(Report{});
        actions.push_back(SetTimer{turn.retry_at_});
    }

    void operator()(const LookAgain&) {
        if (turn.phase_ == Phase::blocked) actions.push_back(CheckReady{});
    }

    void operator()(const TimerFired&) {
        if (now < turn.retry_at_) return;
        if (turn.phase_ == Phase::blocked) actions.push_back(CheckReady{});
        if (turn.phase_ == Phase::retry_wait) turn.send_request(actions);
    }

    void operator()(const FirstOutput&) {
        if (turn.phase_ != Phase::requesting) return;
        turn.phase_ = Phase::streaming;
        actions.push_back(Report{});
    }

    void operator()(const Answered& event) {
        if (turn.phase_ != Phase::requesting && turn.phase_ != Phase::streaming) return;
        turn.attempt_ = 0;
        turn.calls_.assign(event.calls.begin(), event.calls.end());
        if (turn.interrupted_) {
            turn.drop_calls(actions, "The user interrupted before this ran.");
            return turn.finish(actions, "interrupted", "");
        }
        if (turn.calls_.empty()) return turn.finish(actions, "completed", "");
        turn.next_call(actions);
    }

    void operator()(const RequestFailed& event) {
        if (turn.phase_ != Phase::requesting && turn.phase_ != Phase::streaming) return;
        const auto& failure = event.failure;
        if (turn.interrupted_) return turn.finish(actions, "interrupted", "");
        const auto pause = providers::retry_pause(failure, turn.attempt_, event.jitter);
        if (!pause) return turn.finish(actions, "failed", failure.message);
        turn.phase_ = Phase::retry_wait;
        turn.reason_ = failure.message;
        turn.retry_at_ = now + *pause;
        actions.push_back(Report{});
        actions.push_back(SetTimer{turn.retry_at_});
    }

    void operator()(const CellEnded& event) {
        if (turn.phase_ != Phase::running_cell || turn.calls_.front().row != event.row) return;
        turn.calls_.pop_front();
        turn.next_call(actions);
    }

    void operator()(const Interrupt&) {
        if (turn.phase_ == Phase::done || turn.interrupted_) return;
        turn.interrupted_ = true;
        switch (turn.phase_) {
            case Phase::requesting:
            case Phase::streaming:
                actions.push_back(CancelRequest{});
                break;
            case Phase::running_cell:
                // The cell's end comes as CellEnded; what waits behind it does not run.
                actions.push_back(InterruptCell{turn.calls_.front()});
                break;
            default:
                turn.finish(actions, "interrupted", "");
        }
    }
};

void TurnMachine::send_request(std::vector<Action>& actions) {
    phase_ = Phase::requesting;
    reason_.clear();
    ++attempt_;
    actions.push_back(Report{});
    actions.push_back(SendRequest{attempt_});
}

void TurnMachine::drop_calls(std::vector<Action>& actions, const std::string& words) {
    for (auto& call : calls_) actions.push_back(StoreResult{std::move(call), "not_run", words});
    calls_.clear();
}

void TurnMachine::next_call(std::vector<Action>& actions) {
    if (interrupted_) {
        drop_calls(actions, "The user interrupted before this ran.");
        return finish(actions, "interrupted", "");
    }
    while (!calls_.empty() && !calls_.front().problem.empty()) {
        ++tool_steps_;
        actions.push_back(StoreResult{calls_.front(), "error", calls_.front().problem});
        calls_.pop_front();
    }
    // What was begun before a restart is carried to its end even at the limit.
    if (tool_steps_ >= kMaxToolSteps && !resumed_) {
        drop_calls(actions, "This turn has used all of its steps.");
        return finish(
            actions, "failed",
            "the turn was stopped after " + std::to_string(kMaxToolSteps) + " tool steps");
    }
    if (calls_.empty()) {
        resumed_ = false;
        attempt_ = 0;
        return send_request(actions);
    }
    ++tool_steps_;
    if (phase_ != Phase::running_cell) {
        phase_ = Phase::running_cell;
        reason_.clear();
        actions.push_back(Report{});
    }
    actions.push_back(RunCell{calls_.front(), resumed_});
}

void TurnMachine::finish(std::vector<Action>& actions, std::string outcome, std::string message) {
    phase_ = Phase::done;
    reason_.clear();
    actions.push_back(Finish{std::move(outcome), std::move(message)});
}

std::vector<Action> TurnMachine::on(const Event& event, shared::TimePoint now) {
    std::vector<Action> actions;
    std::visit(Step{*this, actions, now}, event);
    return actions;
}

const char* to_string(TurnMachine::Phase phase) {
    switch (phase) {
        case Phase::queued:
            return "queued";
        case Phase::blocked:
            return "blocked";
        case Phase::requesting:
            return "requesting";
        case Phase::streaming:
            return "streaming";
        case Phase::running_cell:
            return "running_cell";
        case Phase::retry_wait:
            return "retry_wait";
        case Phase::done:
            return "done";
    }
    return "done";
}

}  // namespace sessions
