// Restart policy and watchdog of the supervisor: tables of times in, decisions out.
#include <catch2/catch.hpp>
#include <vector>

#include "supervisor/restart_policy.h"
#include "supervisor/watchdog.h"

using namespace std::chrono_literals;
using shared::Milliseconds;
using shared::TimePoint;
using supervisor::decide_restart;
using supervisor::Heartbeat;
using supervisor::OwnTicks;
using supervisor::RestartHistory;
using supervisor::Timing;
using supervisor::with_death;

namespace {

const TimePoint kStart{1'000'000s};

struct Crashes {
    std::vector<Milliseconds> waits;  // before each restart
    Milliseconds took{0};             // until failed, waits included
    bool failed = false;
};

// A child that lives for `life` each time, as often as the policy starts it, 100 times at most.
Crashes crash_loop(Milliseconds life, const Timing& timing = {}) {
    Crashes result;
    RestartHistory history;
    TimePoint now = kStart;
    for (int i = 0; i < 100; ++i) {
        now += life;
        history = with_death(history, {.total = life, .ready = life}, timing);
        const auto decision = decide_restart(history, now, timing);
        if (decision.failed) {
            CHECK(decision.at == now + timing.failed_for);
            result.failed = true;
            break;
        }
        result.waits.push_back(std::chrono::duration_cast<Milliseconds>(decision.at - now));
        now = decision.at;
    }
    result.took = std::chrono::duration_cast<Milliseconds>(now - kStart);
    return result;
}

}  // namespace

TEST_CASE("a child that dies at once is restarted ten times, ever later, then failed") {
    const auto loop = crash_loop(0ms);
    CHECK(loop.failed);
    CHECK(loop.waits == std::vector<Milliseconds>{0ms, 100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms,
                                                  6400ms, 12800ms, 25600ms});
    CHECK(loop.took < 60s);
}

TEST_CASE("how long a child lives decides whether its loop is a failure") {
    struct Row {
        Milliseconds life;
        bool failed;
    };
    for (const auto& row :
         {Row{0ms, true}, Row{1100ms, true}, Row{6000ms, true}, Row{6001ms, false}, Row{10s, false},
          Row{59s, false}, Row{60s, false}, Row{600s, false}}) {
        CAPTURE(row.life.count());
        CHECK(crash_loop(row.life).failed == row.failed);
    }
}

TEST_CASE("waits stay at 30 s, and 60 s in use make the next restart immediate") {
    const auto unwell = crash_loop(10s);
    CHECK(unwell.waits.back() == 30s);
    const auto well = crash_loop(60s);
    CHECK(well.waits.back() == 0ms);

    RestartHistory history;
    const Timing timing;
    for (int i = 0; i < 5; ++i) history = with_death(history, {10ms, 10ms}, timing);
    CHECK(decide_restart(history, kStart, timing).at == kStart + 800ms);
    // Long alive without ever being ready is not health.
    history = with_death(history, {.total = 90s, .ready = 0ms}, timing);
    CHECK(decide_restart(history, kStart, timing).at == kStart + 1600ms);
    history = with_death(history, {.total = 61s, .ready = 60s}, timing);
    CHECK(decide_restart(history, kStart, timing).at == kStart);
    CHECK(history.deaths.size() == 1);
}

TEST_CASE("the history is bounded") {
    RestartHistory history;
    for (int i = 0; i < 1000; ++i) history = with_death(history, {20s, 20s}, {});
    CHECK(history.deaths.size() == Timing{}.most_deaths + 1);
}

TEST_CASE("own ticks: a late one starts every window anew") {
    struct Row {
        const char* name;
        std::vector<Milliseconds> steps;  // between ticks
        Milliseconds trusted_age;         // now - trusted_since after the last tick
    };
    for (const auto& row :
         {Row{"first tick", {}, 0ms}, Row{"on time", {1s, 1s, 1s}, 3s},
          Row{"a little late is on time", {1s, 2s, 1s}, 4s}, Row{"late", {1s, 2001ms}, 0ms},
          Row{"late, then on time", {1s, 60s, 1s, 1s}, 2s},
          Row{"late twice", {15s, 1s, 15s}, 0ms}}) {
        CAPTURE(row.name);
        OwnTicks ticks{Timing{}};
        TimePoint now = kStart;
        TimePoint trusted = ticks.tick(now);
        for (const auto step : row.steps) trusted = ticks.tick(now += step);
        CHECK(now - trusted == row.trusted_age);
    }
}

TEST_CASE("silence: since the last change of the beat, and only while we ran ourselves") {
    struct Row {
        const char* name;
        Milliseconds beat_seen, trusted_since, now;  // since the start
        Milliseconds silence;
    };
    for (const auto& row :
         {Row{"never beat", 0s, 0s, 7s, 7s}, Row{"beat", 5s, 0s, 7s, 2s},
          Row{"we slept", 5s, 65s, 66s, 1s}, Row{"beat after", 67s, 65s, 68s, 1s}}) {
        CAPTURE(row.name);
        Heartbeat heartbeat;
        heartbeat.start(kStart);
        if (row.beat_seen > 0s) heartbeat.look(kStart + row.beat_seen, kStart + row.beat_seen);
        heartbeat.look(kStart + row.now - 1ms,
                       row.beat_seen > 0s ? kStart + row.beat_seen : TimePoint{});
        CHECK(heartbeat.silence(kStart + row.now, kStart + row.trusted_since) == row.silence);
    }
}

TEST_CASE("a beat dated in the future is one beat, not many") {
    Heartbeat heartbeat;
    heartbeat.start(kStart);
    heartbeat.look(kStart + 1s, kStart + 100h);
    heartbeat.look(kStart + 9s, kStart + 100h);
    CHECK(heartbeat.silence(kStart + 11s, {}) == 10s);
}
