// One end of the channel between the api and one hostagent: two byte rings in one sealed memfd.
//
// The story of both sides:
//  1. The supervisor calls create_channel() and hands each side its descriptors by SCM_RIGHTS,
//     with the generation. Each side calls ChannelEnd::attach(), which maps the memory with
//     Boost.Interprocess and closes the memfd.
//  2. send() queues a message (at most kMaxMessageBytes) and moves as much of the queue into the
//     ring as fits, in fragments of at most kMaxFragmentBytes. Nothing is ever dropped. When the
//     ring is full the rest waits; the reader wakes the writer when it has made room.
//  3. Each side sleeps on its own eventfd (wake_fd()). Before sleeping it calls prepare_to_sleep()
//     and does not sleep if that says there is work. A side writes the other's eventfd only when
//     the other one says that it sleeps.
//  4. When wake_fd() is readable: woken(), then receive() until empty, then flush().
//
// The other side is not trusted: it may change any byte of the mapping at any time. Each side
// keeps its own cursors privately, reads the peer's once a turn, refuses a distance over the
// capacity, and copies a message out once before anyone looks at it. What breaks the rules is an
// Error `protocol`; the channel is then of no more use and the owner drops it.
//
// When a side dies, the supervisor makes a new channel with generation + 1 for both. No lock lives
// in the shared memory. An end is not thread-safe: one caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "shared/result.h"
#include "shared/unique_fd.h"

namespace shared {

inline constexpr std::size_t kRingBytes = 256 * 1024;
inline constexpr std::size_t kMaxFragmentBytes = 64 * 1024;
inline constexpr std::size_t kMaxMessageBytes =
    8 * 1024 * 1024 + 4096;  // a full frame and its head

enum class ChannelSide : std::uint8_t { api = 0, agent = 1 };

/// What one side is handed. `own_wake` is the eventfd it sleeps on, `peer_wake` the one it writes.
struct ChannelDescriptors {
    UniqueFd memory;
    UniqueFd own_wake;
    UniqueFd peer_wake;
};

struct ChannelPair {
    ChannelDescriptors api;
    ChannelDescriptors agent;
};

/// A fresh channel: memfd sized, sealed (shrink, grow, seal), zeroed. Throws std::system_error.
ChannelPair create_channel();

struct ChannelCounters {
    std::uint64_t messages_sent = 0, messages_received = 0;
    std::uint64_t bytes_sent = 0, bytes_received = 0;
    std::uint64_t wakes_sent = 0, wakes_received = 0;
    std::uint64_t full = 0;  // how often the ring was full when something wanted to leave
};

class ChannelEnd {
  public:
    /// Errors: protocol when the descriptors are not what create_channel() made.
    static Result<ChannelEnd> attach(ChannelDescriptors descriptors, ChannelSide side);
    ChannelEnd(ChannelEnd&&) noexcept;
    ChannelEnd& operator=(ChannelEnd&&) noexcept;
    ~ChannelEnd();

    /// Queues and flushes. Errors: too_large, and nothing was queued; protocol.
    Result<void> send(std::string message);
    /// Moves queued fragments into the ring while they fit. Errors: protocol.
    Result<void> flush();
    /// Bytes accepted by send() that are not in the ring yet. Owners stop producing above a limit
    /// of their own.
    std::size_t queued_bytes() const;

    /// The next whole message, or nothing. Errors: protocol.
    Result<std::optional<std::string>> receive();

    int wake_fd() const;
    /// Empties the eventfd and says that this side is awake.
    void woken();
    /// Says that this side is about to sleep. False: something is readable (or room came up for
    /// what is queued), do not sleep.
    bool prepare_to_sleep();

    const ChannelCounters& counters() const;

  private:
    struct State;
    explicit ChannelEnd(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace shared
