// A peer that changes any byte of the mapping at any time: the side that keeps the rules may be
// told nonsense or an error, but never reads past the ring, allocates past the limits, or hangs.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <iostream>
#include <random>

#include "tests/boundary/channel_side.h"

using namespace shared;
using channel_test::attach;

namespace {

constexpr int kRounds = 120;
constexpr auto kRound = Milliseconds(60);

struct Mapping {
    explicit Mapping(int fd) : size(static_cast<std::size_t>(::lseek(fd, 0, SEEK_END))) {
        bytes = static_cast<unsigned char*>(
            ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
        if (bytes == MAP_FAILED) throw std::runtime_error("mmap");
    }
    ~Mapping() { ::munmap(bytes, size); }
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    std::size_t size;
    unsigned char* bytes;
};

/// Where the cursors and flags are: the first page.
constexpr std::size_t kControlBytes = 4096;

[[noreturn]] void scribble(const Mapping& mapping, ChannelEnd& own, unsigned seed) {
    std::mt19937 random(seed);
    const auto style = seed % 4;
    for (std::uint64_t turn = 0;; ++turn) {
        if (turn % 64 == 0) (void)own.send(channel_test::message(turn));
        if (turn % 256 == 0) (void)own.receive();
        const std::size_t at =
            style == 0 ? random() % mapping.size : random() % kControlBytes / 8 * 8;
        switch (style) {
            case 0:
            case 1:
                mapping.bytes[at] = static_cast<unsigned char>(random());
                break;
            case 2: {  // a cursor a little ahead: inside the ring, but beyond what was written
                std::uint64_t value;
                std::memcpy(&value, mapping.bytes + at, sizeof value);
                value += random() % 100'000;
                std::memcpy(mapping.bytes + at, &value, sizeof value);
                break;
            }
            default: {  // heads: sizes of all kinds in front of what is read next
                const std::uint32_t head = random() % 3 == 0 ? random() : random() % 70'000;
                const std::size_t place =
                    kControlBytes + random() % (mapping.size - kControlBytes - 4);
                std::memcpy(mapping.bytes + place, &head, sizeof head);
            }
        }
    }
}

}  // namespace

TEST_CASE("a peer that scribbles over the mapping costs the channel and nothing else") {
    const unsigned seed = std::random_device{}();
    std::cout << "channel hostile seed " << seed << std::endl;
    INFO("seed " << seed);
    int broken = 0;
    for (int round = 0; round < kRounds; ++round) {
        ChannelPair pair = create_channel();
        ChannelEnd api =
            attach(std::move(pair.api), ChannelSide::api);  // what comes later is hostile
        const pid_t hostile = channel_test::fork_side();
        REQUIRE(hostile >= 0);
        if (hostile == 0) {
            const Mapping mapping(pair.agent.memory.get());
            ChannelEnd own = attach(std::move(pair.agent), ChannelSide::agent);
            scribble(mapping, own, seed + static_cast<unsigned>(round));
        }
        const TimePoint end = Monotonic::now() + kRound;
        bool lives = true;
        while (lives && Monotonic::now() < end) {
            if (api.queued_bytes() < 100'000) lives = api.send(std::string(3000, 'x')).ok();
            for (int turn = 0; lives && turn < 64; ++turn) {
                auto got = api.receive();
                lives = got.ok();
                if (lives && !*got) break;
                if (lives) REQUIRE((**got).size() <= kMaxMessageBytes);
            }
            lives = lives && api.flush().ok();
            (void)api.prepare_to_sleep();
            api.woken();
        }
        if (!lives) ++broken;
        ::kill(hostile, SIGKILL);
        int status = 0;
        REQUIRE(::waitpid(hostile, &status, 0) == hostile);
        CHECK(WIFSIGNALED(status));
    }
    CHECK(broken > 0);  // else it was not hostile
}

TEST_CASE("after an error the channel stays unusable") {
    ChannelPair pair = create_channel();
    const Mapping mapping(pair.agent.memory.get());
    ChannelEnd api = attach(std::move(pair.api), ChannelSide::api);
    std::memset(mapping.bytes + 64, 0x7f, kControlBytes - 64);  // cursors, not the magic
    const auto first = api.receive();
    REQUIRE_FALSE(first);
    CHECK(first.error().code == ErrorCode::protocol);
    CHECK_FALSE(api.prepare_to_sleep());  // so that a loop comes to see the error
    std::memset(mapping.bytes + 64, 0, kControlBytes - 64);
    CHECK_FALSE(api.receive());
    CHECK_FALSE(api.send("x"));
}

TEST_CASE("a peer that writes empty fragments for ever does not hold the reader") {
    ChannelPair pair = create_channel();
    const Mapping mapping(pair.agent.memory.get());
    ChannelEnd api = attach(std::move(pair.api), ChannelSide::api);
    const pid_t hostile = channel_test::fork_side();
    REQUIRE(hostile >= 0);
    if (hostile == 0) {
        // Zero is the head of an empty fragment that is not the last: all the ring says so, and
        // every cursor goes on and on.
        for (;;) {
            for (std::size_t at = 64; at < kControlBytes; at += 64) {
                std::uint64_t value;
                std::memcpy(&value, mapping.bytes + at, sizeof value);
                value += 8;
                std::memcpy(mapping.bytes + at, &value, sizeof value);
            }
        }
    }
    const TimePoint end = Monotonic::now() + Milliseconds(5'000);
    bool lives = true;
    while (lives && Monotonic::now() < end) lives = api.receive().ok();
    ::kill(hostile, SIGKILL);
    ::waitpid(hostile, nullptr, 0);
    CHECK_FALSE(lives);
}
