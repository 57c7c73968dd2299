// One turn of a session, from its admitted prompt to its end, as a pure machine: (event, now) to
// actions, without I/O. The live turn does what the actions say and reports back with events.
//
//   queued -> blocked <-> (look again)        a kernel cannot be started just now
//          -> requesting -> streaming         a request to the model is under way
//             |  ^ retry_wait                 it failed, and is sent again after a pause
//             v
//          running_cell -> requesting ...     the answer's calls run in order, one at a time
//          done
//
// Whoever runs it stores before it reports: an answer's rows before `Answered`, a result's row
// before `CellEnded`. So a crash at any instant finds rows from which `Resumed` goes on.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "api/providers/model_event.h"
#include "shared/clock.h"
#include "shared/ids.h"

namespace sessions {

inline constexpr int kMaxToolSteps = 300;
// A blocked turn is looked at again this often; a change of the host's state comes as `LookAgain`.
inline constexpr shared::Milliseconds kBlockedRetry{15'000};

/// A tool call of the model, its row stored.
struct TurnCall {
    std::int64_t row = 0;
    shared::CellId cell;
    std::string problem;  // why it cannot run (python_tool.h); then it is not run
};

namespace turn {

// Events.
struct Start {};  // a worker took the turn
/// Crash recovery: calls whose results are not stored, in order; `cell` of each names its cell.
struct Resumed {
    std::vector<TurnCall> open_calls;
};
struct Ready {};  // a kernel is on record, or can be started
struct Blocked {
    std::string reason;
};
struct LookAgain {};    // the host's state changed
struct FirstOutput {};  // something of the answer reached the readers
struct Answered {
    std::vector<TurnCall> calls;  // empty: the turn is over
};
struct RequestFailed {
    providers::Failure failure;
    double jitter = 0;  // [0, 1)
};
struct CellEnded {
    std::int64_t row = 0;
};
struct TimerFired {};
struct Interrupt {};

using Event = std::variant<Start, Resumed, Ready, Blocked, LookAgain, FirstOutput, Answered,
                           RequestFailed, CellEnded, TimerFired, Interrupt>;

// Actions.
struct CheckReady {};  // answer: Ready or Blocked
struct SendRequest {
    int attempt = 1;
};
struct CancelRequest {};  // answer: RequestFailed (cancelled), or Answered if it was too late
/// Run or rejoin the cell of that id: it is sent if the kernel never received it, waited for if it
/// runs, read if it ended. Only a kernel proved gone makes the result `unknown`. Answer: CellEnded.
struct RunCell {
    TurnCall call;
    bool rejoin = false;
};
struct InterruptCell {
    TurnCall call;
};
/// Store this result for the call; no answer is needed.
struct StoreResult {
    TurnCall call;
    std::string status;  // "error", "not_run"
    std::string words;
};
/// One timer: a later one replaces it.
struct SetTimer {
    shared::TimePoint at;
};
struct Report {};  // phase, reason or attempt changed: show it
struct Finish {
    std::string outcome;  // "completed", "interrupted", "failed"
    std::string message;
};

using Action = std::variant<CheckReady, SendRequest, CancelRequest, RunCell, InterruptCell,
                            StoreResult, SetTimer, Report, Finish>;

}  // namespace turn

class TurnMachine {
  public:
    enum class Phase { queued, blocked, requesting, streaming, running_cell, retry_wait, done };

    /// Events that do not fit the phase (late answers, stale timers) change nothing.
    std::vector<turn::Action> on(const turn::Event& event, shared::TimePoint now);

    Phase phase() const { return phase_; }
    /// Of a blocked or waiting turn, in the host's or the provider's words.
    const std::string& reason() const { return reason_; }
    int attempt() const { return attempt_; }
    int tool_steps() const { return tool_steps_; }
    bool interrupted() const { return interrupted_; }
    /// When a waiting turn goes on.
    shared::TimePoint retry_at() const { return retry_at_; }

  private:
    struct Step;
    void send_request(std::vector<turn::Action>& actions);
    void next_call(std::vector<turn::Action>& actions);
    void finish(std::vector<turn::Action>& actions, std::string outcome, std::string message);
    void drop_calls(std::vector<turn::Action>& actions, const std::string& words);

    Phase phase_ = Phase::queued;
    std::string reason_;
    int attempt_ = 0;
    int tool_steps_ = 0;
    bool interrupted_ = false;
    bool resumed_ = false;
    shared::TimePoint retry_at_{};
    std::deque<TurnCall> calls_;  // the first one runs while the phase is running_cell
};

const char* to_string(TurnMachine::Phase phase);

}  // namespace sessions
