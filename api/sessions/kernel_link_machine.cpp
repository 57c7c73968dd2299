#include "api/sessions/kernel_link_machine.h"

#include <algorithm>

#include "shared/result.h"

namespace sessions {

using shared::CloseReason;

const char* to_string(LinkState state) {
    switch (state) {
        case LinkState::none:
            return "none";
        case LinkState::booting:
            return "booting";
        case LinkState::attached:
            return "attached";
        case LinkState::reattaching:
            return "reattaching";
        case LinkState::lost:
            return "lost";
        case LinkState::taken_over:
            return "taken_over";
    }
    return "none";
}

KernelLinkMachine::KernelLinkMachine(bool confirmed, std::uint64_t received, Milliseconds grace)
    : confirmed_(confirmed), grace_(grace), received_(received), stored_(received) {
    if (confirmed) state_ = LinkState::reattaching;
}

void KernelLinkMachine::begin_quick(TimePoint now) {
    delay_ = kFirstRetry;
    quick_since_ = now;
}

LinkActions KernelLinkMachine::attempt(TimePoint now) {
    LinkActions actions;
    actions.attach = true;
    actions.start = !confirmed_;
    actions.changed = true;
    in_attempt_ = true;
    retry_at_.reset();
    attempt_deadline_ = now + (actions.start ? kStartDeadline : kOpenDeadline);
    state_ = confirmed_ ? LinkState::reattaching : LinkState::booting;
    return actions;
}

LinkActions KernelLinkMachine::want(TimePoint now) {
    wanted_ = true;
    if (state_ == LinkState::attached || in_attempt_) return {};
    // A request is a person's: it may try again where the timers alone would not.
    if (state_ == LinkState::booting && retry_at_ && !blocked_) return {};
    blocked_ = false;
    begin_quick(now);
    if (state_ != LinkState::reattaching) away_since_ = now;
    return attempt(now);
}

LinkActions KernelLinkMachine::recover(TimePoint now) {
    if (state_ != LinkState::reattaching || in_attempt_) return {};
    away_since_ = now;
    begin_quick(now);
    return attempt(now);
}

LinkActions KernelLinkMachine::news(TimePoint now) {
    if (in_attempt_) return {};
    if (state_ != LinkState::reattaching && state_ != LinkState::booting) return {};
    blocked_ = false;
    begin_quick(now);
    return attempt(now);
}

LinkActions KernelLinkMachine::channel_lost(TimePoint now) {
    if (state_ != LinkState::attached && !in_attempt_) return {};
    if (state_ == LinkState::attached) away_since_ = now;
    state_ = confirmed_ ? LinkState::reattaching : LinkState::booting;
    detail_ = "the host's agent is starting again";
    in_attempt_ = false;
    attempt_deadline_.reset();
    ack_at_.reset();
    begin_quick(now);
    schedule_retry(now);
    LinkActions actions;
    actions.changed = true;
    return actions;
}

LinkActions KernelLinkMachine::opened(TimePoint now) {
    if (!in_attempt_) return {};
    attempt_deadline_ = now + kHelloDeadline;
    return {};
}

LinkActions KernelLinkMachine::hello(TimePoint now, std::uint64_t ack) {
    if (!in_attempt_) return {};
    in_attempt_ = false;
    attempt_deadline_.reset();
    confirmed_ = true;
    blocked_ = false;
    state_ = LinkState::attached;
    detail_.clear();
    attached_at_ = now;
    if (!numbered_) {
        numbered_ = true;
        next_seq_ = ack + 1;
    }
    if (!acknowledged(ack)) return drop(now, "the kernel acknowledged what was never sent");
    received_ = stored_ > received_ ? stored_ : received_;
    acked_ = stored_;
    LinkActions actions;
    actions.changed = true;
    for (Frame& frame : outbox_) {
        if (frame.seq == 0) frame.seq = next_seq_++;
        actions.send.push_back(frame.seq);
    }
    return actions;
}

void KernelLinkMachine::schedule_retry(TimePoint now) {
    if (!confirmed_ && !wanted_) {
        retry_at_.reset();
        return;
    }
    const bool given_up = now - away_since_ > grace_ + std::chrono::minutes(1);
    if (given_up && confirmed_) {
        retry_at_.reset();  // still not proved gone: news or a request tries again
        return;
    }
    Milliseconds wait = delay_;
    const Milliseconds slow = confirmed_ ? kSlowRetry : kBootRetry;
    if (now - quick_since_ > kQuickRetriesLast + kSlowestQuickRetry * 2) wait = slow;
    delay_ = std::min(delay_ * 2, kSlowestQuickRetry);
    retry_at_ = now + wait;
}

LinkActions KernelLinkMachine::fall_back(TimePoint now, const std::string& detail) {
    LinkActions actions;
    actions.changed = true;
    if (state_ == LinkState::attached) {
        away_since_ = now;
        // One that breaks right after each hello does not get the quick retries anew each time.
        if (now - attached_at_ > kSteady) begin_quick(now);
    }
    in_attempt_ = false;
    attempt_deadline_.reset();
    ack_at_.reset();
    state_ = confirmed_ ? LinkState::reattaching : LinkState::booting;
    detail_ = detail;
    schedule_retry(now);
    return actions;
}

LinkActions KernelLinkMachine::closed(TimePoint now, CloseReason reason,
                                      const std::string& detail) {
    if (state_ != LinkState::attached && !in_attempt_) return {};
    switch (reason) {
        case CloseReason::dropped:
        case CloseReason::overflow:
            return fall_back(now, detail);
        case CloseReason::unreachable:
        case CloseReason::elsewhere: {
            auto actions = fall_back(now, detail);
            // Nothing is there to hurry back to before the first kernel.
            if (!confirmed_ && retry_at_) retry_at_ = now + kBootRetry;
            return actions;
        }
        case CloseReason::needs_auth: {
            auto actions = fall_back(now, detail);
            blocked_ = true;
            retry_at_.reset();  // never against the network by itself: accounts get locked
            return actions;
        }
        case CloseReason::unsupported: {
            if (confirmed_) return fall_back(now, detail);
            break;
        }
        case CloseReason::no_folder:
            break;
        case CloseReason::failed:
            if (confirmed_) return fall_back(now, detail);
            break;
        case CloseReason::gone: {
            LinkActions actions = fall_back(now, detail);
            retry_at_.reset();
            actions.gone = true;
            state_ = LinkState::lost;
            return actions;
        }
    }
    LinkActions actions = fall_back(now, detail);
    retry_at_.reset();
    wanted_ = false;
    actions.failed = true;
    state_ = LinkState::none;
    detail_ = detail;
    return actions;
}

LinkActions KernelLinkMachine::refused(TimePoint now, bool older_attempt) {
    if (older_attempt) return closed(now, CloseReason::dropped, "an older attempt was refused");
    return closed(now, CloseReason::gone, "the kernel refused our token: it is another one");
}

LinkActions KernelLinkMachine::superseded(TimePoint now, bool by_another_owner) {
    if (state_ != LinkState::attached && !in_attempt_) return {};
    if (!by_another_owner) return fall_back(now, "a newer attachment of ours took over");
    auto actions = fall_back(now, "another daemon attached to this kernel");
    retry_at_.reset();
    state_ = LinkState::taken_over;
    unnumber();
    return actions;
}

/// Another owner numbered frames of its own meanwhile: ours get new numbers, the kernel knows
/// each cell and each call by its own id.
void KernelLinkMachine::unnumber() {
    numbered_ = false;
    strange_numbers_ = true;
    for (Frame& frame : outbox_) frame.seq = 0;
}

LinkActions KernelLinkMachine::drop(TimePoint now, const std::string& detail) {
    auto actions = fall_back(now, detail);
    actions.close = true;
    return actions;
}

void KernelLinkMachine::forget() {
    *this = KernelLinkMachine(false, 0, grace_);
}

LinkActions KernelLinkMachine::tick(TimePoint now) {
    if (in_attempt_ && attempt_deadline_ && *attempt_deadline_ <= now)
        return drop(now, "no answer from the host in time");
    if (!in_attempt_ && retry_at_ && *retry_at_ <= now) return attempt(now);
    return {};
}

std::optional<TimePoint> KernelLinkMachine::next_tick() const {
    std::optional<TimePoint> next;
    for (const auto& candidate : {attempt_deadline_, retry_at_, ack_at_})
        if (candidate && (!next || *candidate < *next)) next = candidate;
    return next;
}

bool KernelLinkMachine::has_room(std::size_t payload_bytes) const {
    return outbox_.size() < kOutboxFrames && outbox_bytes_ + payload_bytes <= kOutboxBytes;
}

std::uint64_t KernelLinkMachine::push(std::string payload, std::uint64_t call, std::string label) {
    outbox_bytes_ += payload.size();
    const bool now = state_ == LinkState::attached;
    outbox_.push_back({now ? next_seq_++ : 0, std::move(payload), call, std::move(label)});
    return outbox_.back().seq;
}

bool KernelLinkMachine::retract(const std::string& label) {
    for (auto at = outbox_.begin(); at != outbox_.end(); ++at) {
        if (at->seq != 0 || at->label != label) continue;
        outbox_bytes_ -= at->payload.size();
        outbox_.erase(at);
        return true;
    }
    return false;
}

const KernelLinkMachine::Frame* KernelLinkMachine::frame(std::uint64_t seq) const {
    // Numbers in the outbox are consecutive, numbered ones first.
    if (outbox_.empty() || outbox_.front().seq == 0 || seq < outbox_.front().seq) return nullptr;
    const std::uint64_t at = seq - outbox_.front().seq;
    if (at >= outbox_.size() || outbox_[at].seq != seq) return nullptr;
    return &outbox_[at];
}

bool KernelLinkMachine::acknowledged(std::uint64_t ack) {
    if (ack >= next_seq_) return false;
    while (!outbox_.empty() && outbox_.front().seq != 0 && outbox_.front().seq <= ack) {
        outbox_bytes_ -= outbox_.front().payload.size();
        if (outbox_.front().call != 0) answered_.push_back(outbox_.front().call);
        outbox_.pop_front();
    }
    return true;
}

Receipt KernelLinkMachine::received(std::uint64_t seq) {
    if (seq <= received_) return Receipt::replay;
    if (std::exchange(strange_numbers_, false)) received_ = seq - 1;
    if (seq != received_ + 1) return Receipt::gap;
    received_ = seq;
    return Receipt::fresh;
}

void KernelLinkMachine::stored(TimePoint now, std::uint64_t seq) {
    stored_ = std::max(stored_, seq);
    if (state_ == LinkState::attached && stored_ > acked_ && !ack_at_) ack_at_ = now + kAckDelay;
}

LinkActions KernelLinkMachine::store_failed(TimePoint now, const std::string& why) {
    received_ = stored_;
    if (state_ != LinkState::attached) return {};
    return drop(now, why);
}

std::uint64_t KernelLinkMachine::take_ack() {
    acked_ = stored_;
    ack_at_.reset();
    return stored_;
}

}  // namespace sessions
