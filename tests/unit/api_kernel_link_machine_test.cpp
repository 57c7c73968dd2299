// The kernel link's machine: when it attaches, what it sends again, what it believes.
#include <catch2/catch.hpp>
#include <vector>

#include "api/sessions/kernel_link_machine.h"

using namespace sessions;
using namespace std::chrono_literals;
using shared::CloseReason;

namespace {
const TimePoint kStart{1000h};

KernelLinkMachine attached(TimePoint now = kStart) {
    KernelLinkMachine machine(false, 0, 1h);
    machine.want(now);
    machine.opened(now);
    machine.hello(now, 0);
    return machine;
}

std::vector<std::uint64_t> numbers(const KernelLinkMachine& machine, std::uint64_t up_to) {
    std::vector<std::uint64_t> found;
    for (std::uint64_t seq = 0; seq <= up_to; ++seq)
        if (machine.frame(seq) != nullptr) found.push_back(seq);
    return found;
}
}  // namespace

TEST_CASE("a kernel is started only when somebody wants it, and once") {
    KernelLinkMachine machine(false, 0, 1h);
    CHECK_FALSE(machine.recover(kStart).attach);
    CHECK_FALSE(machine.news(kStart).attach);
    const auto first = machine.want(kStart);
    CHECK(first.attach);
    CHECK(first.start);
    CHECK(machine.state() == LinkState::booting);
    CHECK_FALSE(machine.want(kStart).attach);
    machine.opened(kStart);
    machine.hello(kStart, 0);
    CHECK(machine.state() == LinkState::attached);
    CHECK_FALSE(machine.want(kStart).attach);
}

TEST_CASE("what a close means") {
    struct Row {
        CloseReason reason;
        bool confirmed;
        LinkState state;
        bool gone, failed, retries;
    };
    const Row rows[] = {
        {CloseReason::dropped, true, LinkState::reattaching, false, false, true},
        {CloseReason::dropped, false, LinkState::booting, false, false, true},
        {CloseReason::unreachable, true, LinkState::reattaching, false, false, true},
        {CloseReason::unreachable, false, LinkState::booting, false, false, true},
        {CloseReason::elsewhere, true, LinkState::reattaching, false, false, true},
        {CloseReason::overflow, true, LinkState::reattaching, false, false, true},
        {CloseReason::needs_auth, true, LinkState::reattaching, false, false, false},
        {CloseReason::needs_auth, false, LinkState::booting, false, false, false},
        {CloseReason::unsupported, true, LinkState::reattaching, false, false, true},
        {CloseReason::unsupported, false, LinkState::none, false, true, false},
        {CloseReason::no_folder, false, LinkState::none, false, true, false},
        {CloseReason::failed, true, LinkState::reattaching, false, false, true},
        {CloseReason::failed, false, LinkState::none, false, true, false},
        {CloseReason::gone, true, LinkState::lost, true, false, false},
    };
    for (const Row& row : rows) {
        CAPTURE(shared::to_string(row.reason), row.confirmed);
        KernelLinkMachine machine(row.confirmed, 0, 1h);
        if (row.confirmed)
            machine.recover(kStart);
        else
            machine.want(kStart);
        const auto actions = machine.closed(kStart, row.reason, "words");
        CHECK(machine.state() == row.state);
        CHECK(actions.gone == row.gone);
        CHECK(actions.failed == row.failed);
        CHECK(machine.next_tick().has_value() == row.retries);
        CHECK(machine.detail() == "words");
    }
}

TEST_CASE("retries: 50 ms doubling to 2 s, 2 s for 80 s more, then every 30 s, then news only") {
    KernelLinkMachine machine(true, 0, 600s);
    machine.recover(kStart);
    TimePoint now = kStart;
    std::vector<Milliseconds> waits;
    for (;;) {
        machine.closed(now, CloseReason::dropped, "down");
        const auto next = machine.next_tick();
        if (!next) break;
        waits.push_back(std::chrono::duration_cast<Milliseconds>(*next - now));
        now = *next;
        REQUIRE(machine.tick(now).attach);
        REQUIRE(waits.size() < 200);
    }
    const std::vector<Milliseconds> begin(waits.begin(), waits.begin() + 7);
    CHECK(begin == std::vector<Milliseconds>{50ms, 100ms, 200ms, 400ms, 800ms, 1600ms, 2000ms});
    Milliseconds quick{0};
    for (const auto wait : waits)
        if (wait <= 2s) quick += wait;
    CHECK(quick >= 80s);
    CHECK(quick <= 90s);
    CHECK(waits.back() == 30s);
    CHECK(now - kStart > 600s);
    CHECK(machine.state() == LinkState::reattaching);  // not proved gone
    CHECK(machine.news(now).attach);
    machine.closed(now, CloseReason::dropped, "down");
    CHECK_FALSE(machine.next_tick().has_value());
    CHECK(machine.want(now).attach);
}

TEST_CASE("news makes the retries quick again") {
    KernelLinkMachine machine(true, 0, 1h);
    machine.recover(kStart);
    TimePoint now = kStart;
    for (int i = 0; i < 60; ++i) {
        machine.closed(now, CloseReason::unreachable, "down");
        now = *machine.next_tick();
        machine.tick(now);
    }
    machine.closed(now, CloseReason::unreachable, "down");
    CHECK(*machine.next_tick() - now == 30s);
    CHECK(machine.news(now).attach);
    machine.closed(now, CloseReason::dropped, "down");
    CHECK(*machine.next_tick() - now == 50ms);
}

TEST_CASE("nothing is tried by itself while a person has to sign in") {
    KernelLinkMachine machine(false, 0, 1h);
    machine.want(kStart);
    machine.closed(kStart, CloseReason::needs_auth, "Permission denied");
    CHECK(machine.blocked());
    CHECK_FALSE(machine.tick(kStart + 10h).attach);
    CHECK(machine.news(kStart + 10h).attach);
    CHECK_FALSE(machine.blocked());
}

TEST_CASE("an attachment that breaks right after each hello does not spin") {
    auto machine = attached();
    TimePoint now = kStart;
    Milliseconds last{0};
    for (int i = 0; i < 8; ++i) {
        machine.drop(now, "broken JSON");
        last = std::chrono::duration_cast<Milliseconds>(*machine.next_tick() - now);
        now = *machine.next_tick();
        machine.tick(now);
        machine.hello(now, 0);
    }
    CHECK(last == 2000ms);
    now += 10s;  // a good one
    machine.drop(now, "dropped");
    CHECK(*machine.next_tick() - now == 50ms);
}

TEST_CASE("frames are numbered at the hello, sent again above its ack, and let go by acks") {
    KernelLinkMachine machine(false, 0, 1h);
    CHECK(machine.push("a") == 0);
    CHECK(machine.push("b") == 0);
    machine.want(kStart);
    auto actions = machine.hello(kStart, 0);
    CHECK(actions.send == std::vector<std::uint64_t>{1, 2});
    CHECK(machine.push("c") == 3);
    CHECK(machine.acknowledged(1));
    CHECK(numbers(machine, 9) == std::vector<std::uint64_t>{2, 3});
    machine.closed(kStart, CloseReason::dropped, "");
    CHECK(machine.push("d") == 0);
    machine.tick(kStart + 1s);
    actions = machine.hello(kStart + 1s, 2);
    CHECK(actions.send == std::vector<std::uint64_t>{3, 4});
    CHECK(machine.frame(3)->payload == "c");
    CHECK(machine.frame(4)->payload == "d");
    CHECK_FALSE(machine.acknowledged(5));  // never sent
}

TEST_CASE("a new api goes on above what the kernel has seen of the old") {
    KernelLinkMachine machine(true, 7, 1h);
    machine.push("again");
    machine.recover(kStart);
    CHECK(machine.hello(kStart, 41).send == std::vector<std::uint64_t>{42});
    CHECK(machine.received(7) == Receipt::replay);
    CHECK(machine.received(9) == Receipt::gap);
    CHECK(machine.received(8) == Receipt::fresh);
    CHECK(machine.received(8) == Receipt::replay);
}

TEST_CASE("an ack leaves after its effect is kept, within 100 ms") {
    auto machine = attached();
    CHECK(machine.received(1) == Receipt::fresh);
    CHECK_FALSE(machine.next_tick().has_value());
    CHECK(machine.take_ack() == 0);
    machine.stored(kStart, 1);
    REQUIRE(machine.next_tick().has_value());
    CHECK(*machine.next_tick() - kStart <= 100ms);
    CHECK_FALSE(machine.ack_due(kStart));
    CHECK(machine.ack_due(*machine.next_tick()));
    CHECK(machine.take_ack() == 1);
    CHECK_FALSE(machine.next_tick().has_value());
}

TEST_CASE("what could not be kept is asked for again") {
    auto machine = attached();
    CHECK(machine.received(1) == Receipt::fresh);
    machine.stored(kStart, 1);
    CHECK(machine.received(2) == Receipt::fresh);
    const auto actions = machine.store_failed(kStart, "disk full");
    CHECK(actions.close);
    machine.tick(kStart + 1s);
    machine.hello(kStart + 1s, 0);
    CHECK(machine.received(2) == Receipt::fresh);
}

TEST_CASE("only another owner's name makes the loser stop") {
    auto ours = attached();
    ours.superseded(kStart, false);
    CHECK(ours.state() == LinkState::reattaching);
    CHECK(ours.next_tick().has_value());
    auto theirs = attached();
    CHECK(theirs.push("x") == 1);
    theirs.superseded(kStart, true);
    CHECK(theirs.state() == LinkState::taken_over);
    CHECK_FALSE(theirs.next_tick().has_value());
    CHECK(theirs.want(kStart).attach);
    CHECK(theirs.hello(kStart, 12).send == std::vector<std::uint64_t>{13});
    CHECK(theirs.received(30) == Receipt::fresh);  // the other one acknowledged up to 29
    CHECK(theirs.received(32) == Receipt::gap);
}

TEST_CASE("a refused token proves the kernel gone, an older attempt proves nothing") {
    auto machine = attached();
    machine.closed(kStart, CloseReason::dropped, "");
    machine.tick(kStart + 1s);
    CHECK_FALSE(machine.refused(kStart + 1s, true).gone);
    machine.tick(kStart + 5s);
    CHECK(machine.refused(kStart + 5s, false).gone);
    CHECK(machine.state() == LinkState::lost);
}

TEST_CASE("an attempt has a deadline") {
    KernelLinkMachine machine(true, 0, 1h);
    machine.recover(kStart);
    const auto actions = machine.tick(*machine.next_tick());
    CHECK(actions.close);
    CHECK(machine.state() == LinkState::reattaching);
}

TEST_CASE("the outbox has a bound, and takes back only what never left") {
    auto machine = attached();
    CHECK(machine.push("sent", 0, "one") == 1);
    CHECK_FALSE(machine.retract("one"));
    machine.closed(kStart, CloseReason::dropped, "");
    machine.push("kept", 0, "two");
    CHECK(machine.retract("two"));
    CHECK_FALSE(machine.retract("two"));
    for (std::size_t i = machine.unacknowledged(); i < kOutboxFrames; ++i) {
        REQUIRE(machine.has_room(1));
        machine.push("x");
    }
    CHECK_FALSE(machine.has_room(1));
    CHECK_FALSE(attached().has_room(kOutboxBytes + 1));
}
