// The life of one child: scripts of events in, states and actions out.
#include <catch2/catch.hpp>
#include <csignal>

#include "supervisor/child_machine.h"

using namespace std::chrono_literals;
using shared::Steering;
using shared::TimePoint;
using supervisor::Actions;
using supervisor::ChildMachine;
using supervisor::ChildState;
using supervisor::Timing;

namespace {

const TimePoint kStart{1'000'000s};

// A machine brought to a state by the events that lead there.
ChildMachine machine_in(ChildState state, TimePoint now = kStart) {
    ChildMachine machine{Timing{}};
    if (state == ChildState::stopped) return machine;
    if (state == ChildState::quarantined) {
        REQUIRE(machine.steer(Steering::quarantine).ok());
        return machine;
    }
    REQUIRE(machine.want().start);
    machine.started(now);
    if (state == ChildState::starting) return machine;
    machine.ready(now);
    if (state == ChildState::up) return machine;
    if (state == ChildState::ending) {
        REQUIRE(machine.broke_rules("said nonsense").end);
        return machine;
    }
    for (int i = 0; machine.state() != state; ++i) {
        REQUIRE(i < 12);
        const auto actions = machine.died("exit 1", now);
        if (machine.state() == state && !actions.start) break;
        if (machine.state() != ChildState::failed) machine.started(now);
    }
    return machine;
}

// What a step asks for, as one letter: start, plan to end, nothing.
char letter(const Actions& actions) {
    REQUIRE_FALSE((actions.start && actions.end));
    return actions.start ? 's' : actions.end ? 'e' : '-';
}

}  // namespace

TEST_CASE("every order in every state") {
    using S = ChildState;
    struct Row {
        S state;
        // restart, stop, quarantine, release, kill: s starts, e ends, - does nothing, x is refused
        const char* answers;
    };
    const Steering orders[] = {Steering::restart, Steering::stop, Steering::quarantine,
                               Steering::release, Steering::kill};
    for (const auto& row : {Row{S::stopped, "sx-sx"}, Row{S::starting, "eeexe"},
                            Row{S::up, "eeexe"}, Row{S::ending, "eee-e"}, Row{S::waiting, "s--xx"},
                            Row{S::failed, "s--sx"}, Row{S::quarantined, "s-xsx"}}) {
        for (int i = 0; i < 5; ++i) {
            CAPTURE(static_cast<int>(row.state), i);
            auto machine = machine_in(row.state);
            REQUIRE(machine.state() == row.state);
            const auto actions = machine.steer(orders[i]);
            CHECK((actions ? letter(*actions) : 'x') == row.answers[i]);
        }
    }
}

TEST_CASE("what follows an ordered end") {
    struct Row {
        Steering order;
        ChildState then;
        bool starts;
        bool unasked;
    };
    for (const auto& row : {Row{Steering::restart, ChildState::waiting, true, false},
                            Row{Steering::stop, ChildState::stopped, false, false},
                            Row{Steering::quarantine, ChildState::quarantined, false, false},
                            Row{Steering::kill, ChildState::waiting, true, true}}) {
        CAPTURE(static_cast<int>(row.order));
        auto machine = machine_in(ChildState::up);
        REQUIRE(machine.steer(row.order).ok());
        const auto actions = machine.died("signal 15 (Terminated)", kStart + 1s);
        CHECK(machine.state() == row.then);
        CHECK(actions.start == row.starts);
        CHECK(machine.last_death_unasked() == row.unasked);
        CHECK(machine.last_cause().find("by an operator, signal 15") != std::string::npos);
    }
}

TEST_CASE("want starts what is stopped, and nothing else") {
    using S = ChildState;
    for (const auto state :
         {S::starting, S::up, S::ending, S::waiting, S::failed, S::quarantined}) {
        CAPTURE(static_cast<int>(state));
        auto machine = machine_in(state);
        CHECK(letter(machine.want()) == '-');
        CHECK(machine.state() == state);
    }
    auto machine = machine_in(S::stopped);
    CHECK(letter(machine.want()) == 's');
}

TEST_CASE("an exit 0 that nobody asked for is a death") {
    auto machine = machine_in(ChildState::up);
    CHECK(machine.died("exit 0", kStart + 1s).start);
    CHECK(machine.last_death_unasked());
    machine.started(kStart + 1s);
    CHECK_FALSE(machine.died("exit 0", kStart + 1s).start);
    CHECK(machine.next() == kStart + 1100ms);
    CHECK_FALSE(machine.due(kStart + 1099ms).start);
    CHECK(machine.due(kStart + 1100ms).start);
    CHECK(machine.restarts() == 1);
}

TEST_CASE("failed ends after five minutes, with a clean slate") {
    auto machine = machine_in(ChildState::failed);
    CHECK_FALSE(machine.due(kStart + 299s).start);
    CHECK(machine.due(kStart + 300s).start);
    machine.started(kStart + 300s);
    CHECK(machine.died("exit 1", kStart + 300s).start);
}

TEST_CASE("hung: ten seconds without a beat while we were on time") {
    struct Row {
        const char* name;
        ChildState state;
        std::chrono::seconds now, trusted_since;
        bool ended;
    };
    for (const auto& row : {Row{"not yet", ChildState::up, 9s, 0s, false},
                            Row{"silent", ChildState::up, 10s, 0s, true},
                            Row{"we slept", ChildState::up, 70s, 61s, false},
                            Row{"silent after sleep", ChildState::up, 71s, 61s, true},
                            Row{"slow start", ChildState::starting, 19s, 0s, false},
                            Row{"never ready", ChildState::starting, 20s, 0s, true},
                            Row{"frozen start", ChildState::starting, 70s, 61s, false},
                            Row{"already ending", ChildState::ending, 60s, 0s, false},
                            Row{"waiting", ChildState::waiting, 60s, 0s, false}}) {
        CAPTURE(row.name);
        auto machine = machine_in(row.state);
        const auto actions = machine.look(kStart + row.now, kStart + row.trusted_since, {});
        CHECK(actions.end.has_value() == row.ended);
        if (!row.ended) continue;
        CHECK(actions.end->terminate_signal == SIGABRT);
        CHECK(actions.end->terminate == 2s);
        CHECK(machine.state() == ChildState::ending);
        CHECK(machine.died("signal 9 (Killed)", kStart + row.now).start);
    }
    auto machine = machine_in(ChildState::up);
    CHECK_FALSE(machine.look(kStart + 9s, kStart, kStart + 8s).end);
    CHECK_FALSE(machine.look(kStart + 18s, kStart, kStart + 8s).end);
    CHECK(machine.look(kStart + 19s, kStart, kStart + 8s).end);
}

TEST_CASE("after the drain nothing starts again, whatever happens") {
    using S = ChildState;
    for (const auto state :
         {S::stopped, S::starting, S::up, S::ending, S::waiting, S::failed, S::quarantined}) {
        CAPTURE(static_cast<int>(state));
        auto machine = machine_in(state);
        const bool was_running = machine.running();
        CHECK(machine.drain().end.has_value() == was_running);
        CHECK_FALSE(machine.want().start);
        CHECK_FALSE(machine.steer(Steering::restart).ok());
        CHECK_FALSE(machine.due(kStart + 1h).start);
        if (was_running) {
            CHECK_FALSE(machine.died("exit 0", kStart + 1s).start);
        }
        CHECK(machine.state() == S::stopped);
    }
}

TEST_CASE("a child that cannot be spawned died") {
    ChildMachine machine{Timing{}};
    REQUIRE(machine.want().start);
    CHECK(machine.died("cannot start: no such file", kStart).start);
    CHECK_FALSE(machine.died("cannot start: no such file", kStart).start);
    CHECK(machine.state() == ChildState::waiting);
    CHECK(machine.next() == kStart + 100ms);
}
