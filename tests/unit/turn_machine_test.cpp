// The turn machine: each row is a turn as events, and what it makes of them.
#include "api/sessions/turn_machine.h"

#include <catch2/catch.hpp>

using namespace sessions;
using namespace sessions::turn;
using namespace std::chrono_literals;

namespace {

TurnCall call(std::int64_t row, std::string problem = {}) {
    return {row, shared::CellId::make(), std::move(problem)};
}
RequestFailed failed(providers::FailureKind kind, bool output = false) {
    providers::Failure failure{kind, "words"};
    failure.output_started = output;
    return {failure, 0};
}

std::string text(const std::vector<Action>& actions) {
    struct Name {
        std::string operator()(const CheckReady&) { return "check"; }
        std::string operator()(const SendRequest& a) { return "send" + std::to_string(a.attempt); }
        std::string operator()(const CancelRequest&) { return "cancel"; }
        std::string operator()(const RunCell& a) {
            return (a.rejoin ? "rejoin" : "run") + std::to_string(a.call.row);
        }
        std::string operator()(const InterruptCell& a) {
            return "interrupt" + std::to_string(a.call.row);
        }
        std::string operator()(const StoreResult& a) {
            return a.status + std::to_string(a.call.row);
        }
        std::string operator()(const SetTimer&) { return "timer"; }
        std::string operator()(const Report&) { return ""; }
        std::string operator()(const Finish& a) { return "finish:" + a.outcome; }
    };
    std::string all;
    for (const auto& action : actions) {
        const auto name = std::visit(Name{}, action);
        if (!name.empty()) all += (all.empty() ? "" : " ") + name;
    }
    return all;
}

struct Row {
    Event event;
    std::string actions;
    std::chrono::milliseconds at = 0ms;
};

void play(const char* what, const std::vector<Row>& rows) {
    INFO(what);
    TurnMachine machine;
    int line = 0;
    for (const auto& row : rows) {
        INFO("row " << line++);
        CHECK(text(machine.on(row.event, shared::TimePoint(row.at))) == row.actions);
    }
}

}  // namespace

TEST_CASE("turns") {
    using providers::FailureKind;
    play("text only", {{Start{}, "check"},
                       {Ready{}, "send1"},
                       {FirstOutput{}, ""},
                       {Answered{}, "finish:completed"},
                       {Interrupt{}, ""}});
    play("parallel calls run in order", {{Start{}, "check"},
                                         {Ready{}, "send1"},
                                         {Answered{{call(1), call(2, "bad"), call(3)}}, "run1"},
                                         {CellEnded{3}, ""},
                                         {CellEnded{1}, "error2 run3"},
                                         {CellEnded{3}, "send1"},
                                         {Answered{}, "finish:completed"}});
    play("blocked, then the host comes back", {{Start{}, "check"},
                                               {Blocked{"no"}, "timer"},
                                               {TimerFired{}, "", 14s},
                                               {TimerFired{}, "check", 15s},
                                               {Blocked{"no"}, "timer", 15s},
                                               {LookAgain{}, "check"},
                                               {Ready{}, "send1"}});
    play("retries", {{Start{}, "check"},
                     {Ready{}, "send1"},
                     {failed(FailureKind::transport), "timer"},
                     {TimerFired{}, "", 999ms},
                     {TimerFired{}, "send2", 1s},
                     {failed(FailureKind::config), "finish:failed"}});
    play("no retry once output was shown",
         {{Start{}, "check"},
          {Ready{}, "send1"},
          {FirstOutput{}, ""},
          {failed(FailureKind::transport, true), "finish:failed"}});
    play("interrupted before the first token",
         {{Start{}, "check"},
          {Ready{}, "send1"},
          {Interrupt{}, "cancel"},
          {Interrupt{}, ""},
          {failed(FailureKind::cancelled), "finish:interrupted"}});
    play("interrupted too late for the request: its calls do not run",
         {{Start{}, "check"},
          {Ready{}, "send1"},
          {Interrupt{}, "cancel"},
          {Answered{{call(1), call(2)}}, "not_run1 not_run2 finish:interrupted"}});
    play("interrupted in a cell", {{Start{}, "check"},
                                   {Ready{}, "send1"},
                                   {Answered{{call(1), call(2)}}, "run1"},
                                   {Interrupt{}, "interrupt1"},
                                   {CellEnded{1}, "not_run2 finish:interrupted"}});
    play("interrupted while it waits", {{Start{}, "check"},
                                        {Blocked{"x"}, "timer"},
                                        {Interrupt{}, "finish:interrupted"},
                                        {Ready{}, ""}});
    play("interrupted in a retry's pause", {{Start{}, "check"},
                                            {Ready{}, "send1"},
                                            {failed(FailureKind::transport), "timer"},
                                            {Interrupt{}, "finish:interrupted"},
                                            {TimerFired{}, "", 9s}});
    play("resumed with open calls", {{Resumed{{call(4), call(5)}}, "rejoin4"},
                                     {CellEnded{4}, "rejoin5"},
                                     {CellEnded{5}, "send1"}});
    play("resumed between cells", {{Resumed{}, "check"}, {Ready{}, "send1"}});
}

TEST_CASE("a turn takes its 300 steps and no more") {
    TurnMachine machine;
    machine.on(Start{}, {});
    machine.on(Ready{}, {});
    for (int step = 1; step < kMaxToolSteps; ++step) {
        REQUIRE(text(machine.on(Answered{{call(step)}}, {})) == "run" + std::to_string(step));
        REQUIRE(text(machine.on(CellEnded{step}, {})) == "send1");
    }
    CHECK(text(machine.on(Answered{{call(300), call(301)}}, {})) == "run300");
    CHECK(text(machine.on(CellEnded{300}, {})) == "not_run301 finish:failed");
}
