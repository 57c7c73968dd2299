// SIGKILL of either side at random instants: the one that lives never hangs, never takes a torn or
// reordered message, and a new generation works at once.
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <iostream>
#include <random>

#include "tests/boundary/channel_side.h"

using namespace shared;
using channel_test::attach;
using channel_test::message;

namespace {

constexpr int kKills = 1000;
enum Verdict : int { fine = 0, torn = 1, hung = 2, broke_rules = 3 };

/// Sends and takes numbered messages for ever, until the other side ends (its pidfd is readable).
Verdict traffic(ChannelEnd& end, int other_pidfd) {
    std::uint64_t sent = 0, received = 0;
    for (;;) {
        while (end.queued_bytes() < 200'000) {
            if (!end.send(message(sent++))) return broke_rules;
        }
        for (int turn = 0; turn < 64; ++turn) {
            auto got = end.receive();
            if (!got) return broke_rules;
            if (!*got) break;
            if (**got != message(received++)) return torn;
        }
        if (!end.flush()) return broke_rules;
        if (end.queued_bytes() < 200'000 || channel_test::sleep(end, other_pidfd)) continue;
        pollfd other{other_pidfd, POLLIN, 0};
        return ::poll(&other, 1, 0) == 1 ? fine : hung;
    }
}

/// Takes all that a dead writer left: whole messages, then nothing.
Verdict drain(ChannelEnd& end) {
    for (int turn = 0; turn < 100'000; ++turn) {
        auto got = end.receive();
        if (!got) return broke_rules;
        if (!*got) return fine;
    }
    return hung;
}

pid_t start(ChannelDescriptors& own, ChannelDescriptors& other, ChannelSide side, int other_pidfd) {
    const pid_t pid = channel_test::fork_side();
    if (pid != 0) return pid;
    other = {};
    ChannelEnd end = attach(std::move(own), side);
    Verdict verdict = traffic(end, other_pidfd);
    if (verdict == fine) verdict = drain(end);
    ::_exit(verdict);
}

int pidfd_of(pid_t pid) {
    return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

}  // namespace

TEST_CASE("a side killed at any instant: no hang, nothing torn, and the next generation works") {
    const unsigned seed = std::random_device{}();
    std::cout << "channel kill seed " << seed << std::endl;
    INFO("seed " << seed);
    std::mt19937 random(seed);
    int verdicts[4] = {};
    for (int kill = 0; kill < kKills; ++kill) {
        ChannelPair pair = create_channel();
        const bool victim_is_api = random() % 2 == 0;
        ChannelDescriptors& victim_end = victim_is_api ? pair.api : pair.agent;
        ChannelDescriptors& other_end = victim_is_api ? pair.agent : pair.api;
        const auto side = victim_is_api ? ChannelSide::api : ChannelSide::agent;
        const auto other_side = victim_is_api ? ChannelSide::agent : ChannelSide::api;

        const pid_t victim = start(victim_end, other_end, side, -1);
        REQUIRE(victim > 0);
        const UniqueFd victim_pidfd(pidfd_of(victim));
        const pid_t other = start(other_end, victim_end, other_side, victim_pidfd.get());
        REQUIRE(other > 0);
        pair = {};

        ::usleep(static_cast<useconds_t>(random() % 12'000));
        ::kill(victim, SIGKILL);
        int status = 0;
        REQUIRE(::waitpid(victim, &status, 0) == victim);
        REQUIRE(WIFSIGNALED(status));  // else it had ended by itself: torn or broken
        const UniqueFd other_pidfd(pidfd_of(other));
        pollfd ended{other_pidfd.get(), POLLIN, 0};
        if (::poll(&ended, 1, 2 * channel_test::kHangMs) != 1) ::kill(other, SIGKILL);
        REQUIRE(::waitpid(other, &status, 0) == other);
        ++verdicts[WIFEXITED(status) ? WEXITSTATUS(status) & 3 : hung];
    }
    CHECK(verdicts[fine] == kKills);
    CHECK(verdicts[torn] == 0);
    CHECK(verdicts[hung] == 0);
    CHECK(verdicts[broke_rules] == 0);
}
