#include <catch2/catch.hpp>
#include <vector>

#include "hostagent/bridge_words.h"
#include "hostagent/host_machine.h"

using namespace hostagent;
using shared::HostReport;
using shared::HostState;
using shared::HostStep;
using shared::Milliseconds;
using shared::TimePoint;

TEST_CASE("a verdict serves for a while, and stays while the host is looked at again") {
    std::vector<HostReport> told;
    HostMachine machine([&](const HostReport& report) { told.push_back(report); });
    const TimePoint start{std::chrono::hours(1)};
    CHECK_FALSE(machine.fresh_enough(start));

    machine.step(HostStep::connecting);
    machine.failed({HostState::unreachable, "refused"}, start);
    CHECK(machine.report().state == HostState::unreachable);
    CHECK(machine.report().step == HostStep::connecting);
    CHECK(machine.fresh_enough(start + kFailureServes - Milliseconds(1)));
    CHECK_FALSE(machine.fresh_enough(start + kFailureServes));
    machine.step(HostStep::probing);
    CHECK(machine.report().state == HostState::unreachable);

    HostReport facts;
    facts.home = "/h";
    machine.ready(facts, start);
    CHECK(machine.report().state == HostState::ready);
    CHECK(machine.report().detail.empty());
    CHECK(machine.fresh_enough(start + kReadyServes - Milliseconds(1)));
    CHECK_FALSE(machine.fresh_enough(start + kReadyServes));
    CHECK(told.size() == 4);
    machine.step(HostStep::probing);  // no change, nothing told
    CHECK(told.size() == 4);
}

TEST_CASE("what the api remembers gives way to what this agent saw") {
    HostMachine machine([](const HostReport&) {});
    HostReport known;
    known.state = HostState::ready;
    known.home = "/old";
    machine.set_control_path("/c/%C");
    machine.remember(known);
    CHECK(machine.report().home == "/old");
    CHECK(machine.report().control_path == "/c/%C");
    CHECK_FALSE(machine.fresh_enough(TimePoint{}));
    HostReport facts;
    facts.home = "/new";
    machine.ready(facts, TimePoint{});
    machine.remember(known);
    CHECK(machine.report().home == "/new");
}

TEST_CASE("a host that wants a person is left alone until news") {
    HostMachine machine([](const HostReport&) {});
    HostReport known;
    known.state = HostState::needs_auth;
    machine.remember(known);
    CHECK_FALSE(machine.quiet());  // of another agent's time: tried once
    machine.failed({HostState::needs_auth, "denied"}, TimePoint{});
    CHECK(machine.quiet());
    machine.news();
    CHECK_FALSE(machine.quiet());
}

TEST_CASE("what a bridge says of itself and of kernels") {
    CHECK(read_ready(R"({"protocol":1,"home":"/h","python":"/p"})").ok());
    for (const char* bad : {"", "[]", R"({"protocol":2,"home":"/h","python":"/p"})",
                            R"({"protocol":1})", R"({"protocol":"1","home":"/h","python":"/p"})"})
        CHECK_FALSE(read_ready(bad).ok());
    CHECK(read_opened(R"({"run":"/r"})") == "/r");
    CHECK(read_opened(R"({"run":3})").empty());
    CHECK(read_closed(R"({"reason":"gone","detail":"x"})").reason == shared::CloseReason::gone);
    CHECK(read_closed(R"({"reason":"elsewhere","detail":"other"})").detail == "other");
    // A bridge cannot claim what only the way there can tell.
    for (const char* odd : {"", "{}", R"({"reason":"needs_auth"})", R"({"reason":[]})"})
        CHECK(read_closed(odd).reason == shared::CloseReason::dropped);
}
