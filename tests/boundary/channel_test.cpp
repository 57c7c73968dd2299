#include "shared/channel.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>

#include "tests/boundary/channel_side.h"

using namespace shared;
using channel_test::attach;
using channel_test::message;

namespace {

struct Ends {
    ChannelPair pair = create_channel();
    ChannelEnd api = attach(std::move(pair.api), ChannelSide::api);
    ChannelEnd agent = attach(std::move(pair.agent), ChannelSide::agent);
};

std::string only(ChannelEnd& end) {
    auto got = end.receive();
    REQUIRE(got);
    REQUIRE(*got);
    return std::move(**got);
}

bool nothing(ChannelEnd& end) {
    auto got = end.receive();
    REQUIRE(got);
    return !*got;
}

bool readable(int fd) {
    pollfd watched{fd, POLLIN, 0};
    return ::poll(&watched, 1, 0) == 1;
}

/// Sends `count` numbered messages and takes as many; an empty text, or what went wrong. Never
/// more than 1 MiB is queued.
std::string exchange_messages(ChannelEnd& end, std::uint64_t count) {
    std::uint64_t sent = 0, received = 0;
    while (sent < count || received < count || end.queued_bytes() > 0) {
        while (sent < count && end.queued_bytes() < (1 << 20)) {
            if (!end.send(message(sent))) return "send refused";
            ++sent;
        }
        for (;;) {
            auto got = end.receive();
            if (!got) return got.error().message;
            if (!*got) break;
            if (**got != message(received)) return "torn or reordered: " + std::to_string(received);
            ++received;
        }
        if (!end.flush()) return "flush refused";
        const bool more = sent < count && end.queued_bytes() < (1 << 20);
        const bool waits = received < count || end.queued_bytes() > 0;
        if (!more && waits && !channel_test::sleep(end)) {
            return "hang at " + std::to_string(sent) + " sent, " + std::to_string(received) +
                   " got";
        }
    }
    return {};
}

}  // namespace

TEST_CASE("messages of every size go both ways whole and in order") {
    Ends ends;
    CHECK(nothing(ends.api));
    const std::size_t sizes[] = {
        1, 7, 8, 4096, kMaxFragmentBytes, kMaxFragmentBytes + 1, 2 * kMaxFragmentBytes};
    for (const std::size_t size : sizes) {
        REQUIRE(ends.api.send(std::string(size, 'x')));
        REQUIRE(ends.agent.send(std::string(size, 'y')));
        CHECK(only(ends.agent) == std::string(size, 'x'));
        CHECK(only(ends.api) == std::string(size, 'y'));
    }
    CHECK(nothing(ends.agent));
    CHECK(ends.api.counters().messages_sent == std::size(sizes));
    CHECK(ends.agent.counters().messages_received == std::size(sizes));
    CHECK(ends.api.counters().bytes_sent == ends.agent.counters().bytes_received);
}

TEST_CASE("the largest message passes through the smaller ring, a larger one is refused") {
    Ends ends;
    const std::string largest(kMaxMessageBytes, 'm');
    CHECK(ends.api.send(largest + "x").error().code == ErrorCode::too_large);
    CHECK(ends.api.queued_bytes() == 0);
    REQUIRE(ends.api.send(largest));
    CHECK(ends.api.queued_bytes() > 0);
    for (int turn = 0; turn < 1000; ++turn) {
        auto got = ends.agent.receive();
        REQUIRE(got);
        if (*got) {
            CHECK(**got == largest);
            CHECK(ends.api.queued_bytes() == 0);
            return;
        }
        REQUIRE(ends.api.flush());
    }
    FAIL("it never came");
}

TEST_CASE("a full ring holds back and drops nothing; the reader wakes the writer") {
    Ends ends;
    std::uint64_t sent = 0;
    while (ends.api.queued_bytes() < 100'000) REQUIRE(ends.api.send(message(sent++)));
    CHECK(ends.api.counters().full > 0);
    REQUIRE(ends.api.prepare_to_sleep());
    CHECK_FALSE(readable(ends.api.wake_fd()));
    std::uint64_t received = 0;
    while (auto got = *ends.agent.receive()) REQUIRE(*got == message(received++));
    CHECK(readable(ends.api.wake_fd()));
    ends.api.woken();
    REQUIRE(ends.api.flush());
    while (received < sent) {
        REQUIRE(only(ends.agent) == message(received++));
        REQUIRE(ends.api.flush());
    }
    CHECK(ends.api.queued_bytes() == 0);
}

TEST_CASE("the eventfd is written only for a sleeper, and once for each sleep") {
    Ends ends;
    REQUIRE(ends.api.send("awake"));
    CHECK_FALSE(readable(ends.agent.wake_fd()));
    CHECK_FALSE(ends.agent.prepare_to_sleep());  // there is something to read
    CHECK(only(ends.agent) == "awake");
    REQUIRE(ends.agent.prepare_to_sleep());
    for (int i = 0; i < 5; ++i) REQUIRE(ends.api.send("asleep"));
    CHECK(readable(ends.agent.wake_fd()));
    CHECK(ends.api.counters().wakes_sent == 1);
    ends.agent.woken();
    CHECK_FALSE(readable(ends.agent.wake_fd()));
    CHECK(ends.agent.counters().wakes_received == 1);
    for (int i = 0; i < 5; ++i) CHECK(only(ends.agent) == "asleep");
}

TEST_CASE("what was sent before the other side attached is there") {
    ChannelPair pair = create_channel();
    ChannelEnd api = attach(std::move(pair.api), ChannelSide::api);
    REQUIRE(api.send("early"));
    ChannelEnd agent = attach(std::move(pair.agent), ChannelSide::agent);
    CHECK_FALSE(agent.prepare_to_sleep());
    CHECK(only(agent) == "early");
}

TEST_CASE("descriptors that are no channel are refused, and closed") {
    const auto count = [] {
        return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
    };
    const auto before = count();
    {
        CHECK_FALSE(ChannelEnd::attach({}, ChannelSide::api));
        ChannelPair pair = create_channel();
        pair.api.peer_wake.reset();
        CHECK_FALSE(ChannelEnd::attach(std::move(pair.api), ChannelSide::api));
        // The peer could shrink it under our feet.
        pair.agent.memory.reset(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        REQUIRE(::ftruncate(pair.agent.memory.get(), 1 << 20) == 0);
        CHECK_FALSE(ChannelEnd::attach(std::move(pair.agent), ChannelSide::agent));
    }
    CHECK(count() == before);
}

TEST_CASE("the memory cannot be resized or unsealed, and its descriptor is closed after mapping") {
    ChannelPair pair = create_channel();
    const int memory = pair.api.memory.get();
    CHECK(::ftruncate(memory, 0) < 0);
    CHECK(::ftruncate(memory, 1 << 24) < 0);
    CHECK(::fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE) < 0);
    const ChannelEnd api = attach(std::move(pair.api), ChannelSide::api);
    CHECK(::fcntl(memory, F_GETFD) < 0);
}

TEST_CASE("two threads, both ways at once") {
    Ends ends;
    std::string other;
    std::thread thread([&] { other = exchange_messages(ends.agent, 5'000); });
    const std::string own = exchange_messages(ends.api, 5'000);
    thread.join();
    CHECK(own.empty());
    CHECK(other.empty());
    INFO(own << " | " << other);
    CHECK(ends.api.counters().full > 0);
}

TEST_CASE("two processes, both ways at once") {
    ChannelPair pair = create_channel();
    const pid_t pid = channel_test::fork_side();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        ChannelEnd agent = attach(std::move(pair.agent), ChannelSide::agent);
        ::_exit(exchange_messages(agent, 20'000).empty() ? 0 : 1);
    }
    pair.agent = {};
    ChannelEnd api = attach(std::move(pair.api), ChannelSide::api);
    CHECK(exchange_messages(api, 20'000) == "");
    int status = -1;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    CHECK(status == 0);
}
