// The link between the api and one kernel, as a pure machine: when to attach, what to number, what
// to send again, what to believe. It owns no descriptor, knows no host, does no I/O; time is an
// argument. `KernelLink` carries out what it says.
//
// The story of one link (docs/PROTOCOL.md, "Attach", "Link"):
//  1. `none`: no kernel. want() asks for one; the owner makes its run id and token and stores them.
//  2. `booting`: attempts with `start`, which is idempotent: the same run id makes no second
//  kernel.
//  3. hello() makes it `attached`. Frames get their numbers now, above what the kernel has seen;
//     what it had not seen of an earlier attachment is sent again with its old number.
//  4. A dropped connection makes it `reattaching`: 50 ms doubling to 2 s, 2 s for 80 s more, then
//     every 30 s until the grace has surely passed. Any news about the network starts that anew.
//  5. Only proof makes it `lost`; only another owner's name makes it `taken_over`.
//
// Nothing here is stored. What is on its way to the kernel and not acknowledged stays in memory,
// and each such frame can be made again from its own row (a cell, an answer): after a restart of
// the api the first hello() says where the numbers go on. What was received is numbered in the
// store by the owner, in the transaction of its effect; stored() then lets the ack leave.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/clock.h"
#include "shared/messages.h"

namespace sessions {

using shared::Milliseconds;
using shared::TimePoint;

enum class LinkState : std::uint8_t { none, booting, attached, reattaching, lost, taken_over };
const char* to_string(LinkState state);

// Delays and limits, each with its reason.
inline constexpr Milliseconds kFirstRetry{50};            // most drops heal at once
inline constexpr Milliseconds kSlowestQuickRetry{2000};   // a host that restarts its sshd
inline constexpr Milliseconds kQuickRetriesLast{80'000};  // a roaming laptop, a short outage
inline constexpr Milliseconds kSlowRetry{30'000};  // a host that is off costs two ssh a minute
inline constexpr Milliseconds kSteady{5000};       // an attachment that lasted so long was good
inline constexpr Milliseconds kBootRetry{15'000};  // a kernel that never was can wait
inline constexpr Milliseconds kStartDeadline{180'000};  // probe 30 s and staging 120 s included
inline constexpr Milliseconds kOpenDeadline{45'000};    // a connection and a bridge
inline constexpr Milliseconds kHelloDeadline{12'000};   // the keeper's own limit is 10 s
inline constexpr Milliseconds kAckDelay{50};            // promised: 100 ms
inline constexpr std::size_t kOutboxFrames = 2048;
inline constexpr std::size_t kOutboxBytes = 64u << 20;

/// What to do next; any of them may be absent.
struct LinkActions {
    bool attach = false;  // begin an attempt; `start`: start the kernel first
    bool start = false;
    bool close = false;               // give the present attempt up (CloseKernel)
    bool gone = false;                // proved: the kernel is not there any more
    bool failed = false;              // the kernel cannot be started; detail() says why
    bool changed = false;             // state or detail is another one
    std::vector<std::uint64_t> send;  // frames of the outbox to write, in this order
};

enum class Receipt : std::uint8_t { fresh, replay, gap };

class KernelLinkMachine {
  public:
    struct Frame {
        std::uint64_t seq = 0;  // 0: not numbered yet
        std::string payload;
        std::uint64_t call = 0;  // the kernel's call that this frame answers; 0: none
        std::string label;       // by which it may be taken back
    };

    KernelLinkMachine() = default;
    /// A kernel on record. `confirmed`: it was attached once, so it is not to be started again.
    KernelLinkMachine(bool confirmed, std::uint64_t received, Milliseconds grace);

    LinkState state() const { return state_; }
    /// Why it is not attached, in words; empty when nothing is wrong.
    const std::string& detail() const { return detail_; }
    bool confirmed() const { return confirmed_; }
    /// What stands in the way is for a person to solve: sign in, or choose another host.
    bool blocked() const { return blocked_; }

    // --- attaching ---
    /// Somebody needs the kernel.
    LinkActions want(TimePoint now);
    /// A kernel on record is to be attached although nobody needs it now.
    LinkActions recover(TimePoint now);
    /// A new channel, a network change, a host that became ready: try at once, and quickly again.
    LinkActions news(TimePoint now);
    /// The agent or its channel is gone; the owner calls news() when there is another.
    LinkActions channel_lost(TimePoint now);
    LinkActions opened(TimePoint now);
    LinkActions hello(TimePoint now, std::uint64_t ack);
    LinkActions closed(TimePoint now, shared::CloseReason reason, const std::string& detail);
    /// `older_attempt`: another attempt of ours is there already; else the token was refused.
    LinkActions refused(TimePoint now, bool older_attempt);
    LinkActions superseded(TimePoint now, bool by_another_owner);
    /// The kernel was ended by us; back to `none`.
    void forget();
    /// Deadlines and retries that are due.
    LinkActions tick(TimePoint now);
    /// When to call tick(); absent: not before another event.
    std::optional<TimePoint> next_tick() const;

    // --- numbers ---
    /// Whether `payload_bytes` more fit into the outbox; beyond it new work is refused.
    bool has_room(std::size_t payload_bytes) const;
    /// Keeps a frame until acknowledged. Its number if it is to be written now, else 0.
    std::uint64_t push(std::string payload, std::uint64_t call = 0, std::string label = {});
    /// Takes a frame back that never left. False: there is none, or the kernel may have it.
    bool retract(const std::string& label);
    const Frame* frame(std::uint64_t seq) const;
    /// The ack in a frame's header: everything up to it has arrived. Errors: more than was sent.
    bool acknowledged(std::uint64_t ack);
    /// The calls whose answers were acknowledged since the last time.
    std::vector<std::uint64_t> take_answered() { return std::exchange(answered_, {}); }
    /// A numbered frame arrived. `gap`: give the attachment up with drop().
    Receipt received(std::uint64_t seq);
    /// The peer broke the rules or left a gap: attach anew.
    LinkActions drop(TimePoint now, const std::string& detail);
    /// What was received up to `seq` is kept; its ack is due within kAckDelay.
    void stored(TimePoint now, std::uint64_t seq);
    /// What came after stored_seq() could not be kept: attach anew, to be sent it again.
    LinkActions store_failed(TimePoint now, const std::string& why);
    /// The ack to put into a header now; takes the pending one off the list.
    std::uint64_t take_ack();
    bool ack_due(TimePoint now) const { return ack_at_ && *ack_at_ <= now; }
    std::uint64_t received_seq() const { return received_; }
    std::uint64_t stored_seq() const { return stored_; }
    std::size_t unacknowledged() const { return outbox_.size(); }

  private:
    void unnumber();
    LinkActions attempt(TimePoint now);
    LinkActions fall_back(TimePoint now, const std::string& detail);
    void schedule_retry(TimePoint now);
    void begin_quick(TimePoint now);

    LinkState state_ = LinkState::none;
    std::string detail_;
    bool confirmed_ = false;
    bool wanted_ = false;
    bool blocked_ = false;
    bool in_attempt_ = false;
    Milliseconds grace_{3'600'000};
    Milliseconds delay_ = kFirstRetry;
    TimePoint away_since_{};
    TimePoint attached_at_{};
    TimePoint quick_since_{};
    std::optional<TimePoint> attempt_deadline_;
    std::optional<TimePoint> retry_at_;
    std::optional<TimePoint> ack_at_;

    std::deque<Frame> outbox_;
    std::size_t outbox_bytes_ = 0;
    std::vector<std::uint64_t> answered_;
    bool strange_numbers_ = false;  // another owner was in between: take the kernel's word
    bool numbered_ = false;         // a hello of this run said where the numbers go on
    std::uint64_t next_seq_ = 1;
    std::uint64_t received_ = 0;  // highest in order, kept or not yet
    std::uint64_t stored_ = 0;    // highest kept
    std::uint64_t acked_ = 0;     // highest ack that left on this attachment
};

}  // namespace sessions
