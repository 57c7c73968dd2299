// One side of a channel as its tests use it: numbered messages of differing sizes, and waits with
// a deadline. A message's bytes follow from its number, so a torn or reordered one is seen.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include "shared/channel.h"
#include "shared/clock.h"

namespace channel_test {

inline constexpr int kHangMs = 10'000;

/// Mostly short, at times several fragments, now and then more than the whole ring.
inline std::size_t size_of(std::uint64_t number) {
    if (number % 499 == 498) return 700'000;
    if (number % 61 == 60) return 150'000;
    return 8 + number * 7919 % 3000;
}

inline std::string message(std::uint64_t number) {
    std::string bytes(size_of(number), static_cast<char>('a' + number % 26));
    std::memcpy(bytes.data(), &number, sizeof number);
    return bytes;
}

inline shared::ChannelEnd attach(shared::ChannelDescriptors descriptors, shared::ChannelSide side) {
    auto end = shared::ChannelEnd::attach(std::move(descriptors), side);
    if (!end) throw std::runtime_error(end.error().message);
    return std::move(*end);
}

/// A forked side that ends with the test program, however that one ends.
inline pid_t fork_side() {
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    return 0;
}

/// Sleeps until the other side wakes us. False: nothing came for kHangMs, or until `other` ended.
inline bool sleep(shared::ChannelEnd& end, int other_fd = -1) {
    if (!end.prepare_to_sleep()) return true;
    pollfd watched[2] = {{end.wake_fd(), POLLIN, 0}, {other_fd, POLLIN, 0}};
    const int ready = ::poll(watched, 2, kHangMs);
    if (ready > 0 && (watched[0].revents & POLLIN) != 0) {
        end.woken();
        return true;
    }
    return false;
}

}  // namespace channel_test
