#include "api/sessions/event_log.h"

namespace sessions {

std::uint64_t EventLog::cursor() const {
    std::lock_guard lock(mutex_);
    return cursor_;
}

std::size_t EventLog::listeners() const {
    std::lock_guard lock(mutex_);
    return listeners_.size();
}

void EventLog::publish(std::string json, std::int64_t row) {
    auto text = std::make_shared<const std::string>(std::move(json));
    std::lock_guard lock(mutex_);
    const StreamEvent event{++cursor_, row, text};
    replay_.push_back(event);
    replay_bytes_ += text->size();
    while (replay_.size() > kReplayEvents || replay_bytes_ > kReplayBytes) {
        replay_bytes_ -= replay_.front().json->size();
        replay_.pop_front();
    }
    for (const auto& listener : listeners_) {
        if (listener->overflowed || (row != 0 && row <= listener->skipped_through)) continue;
        // An event over the byte bound by itself still reaches a listener that keeps up.
        const bool fits =
            listener->queue.empty() || (listener->queue.size() < kQueueEvents &&
                                        listener->bytes + text->size() <= kQueueBytes);
        if (fits) {
            listener->queue.push_back(event);
            listener->bytes += text->size();
        } else {
            listener->overflowed = true;
            listener->queue.clear();
        }
        listener->notify();
    }
}

void EventLog::close() {
    std::lock_guard lock(mutex_);
    closed_ = true;
    for (const auto& listener : listeners_) listener->notify();
}

EventLog::Subscription EventLog::subscribe(const std::string& generation,
                                           std::optional<std::uint64_t> after) {
    Subscription subscription;
    subscription.log_ = this;
    subscription.listener_ = std::make_shared<Listener>();
    std::lock_guard lock(mutex_);
    const auto oldest = cursor_ - replay_.size();  // the cursor before the first one held
    subscription.is_reset_ =
        !after || generation != generation_ || *after > cursor_ || *after < oldest;
    subscription.start_ = subscription.is_reset_ ? cursor_ : *after;
    if (!subscription.is_reset_) {
        // Replay is not the listener's slowness: it may be over the queue's bound.
        for (const auto& event : replay_) {
            if (event.cursor <= *after) continue;
            subscription.listener_->queue.push_back(event);
            subscription.listener_->bytes += event.json->size();
        }
    }
    listeners_.push_back(subscription.listener_);
    return subscription;
}

EventLog::Subscription::~Subscription() {
    if (!listener_) return;
    std::lock_guard lock(log_->mutex_);
    log_->listeners_.remove(listener_);
}

void EventLog::Subscription::set_wake(std::function<void()> wake) {
    std::lock_guard lock(log_->mutex_);
    listener_->wake = std::move(wake);
}

void EventLog::Subscription::skip_rows_through(std::int64_t row) {
    std::lock_guard lock(log_->mutex_);
    listener_->skipped_through = row;
    std::erase_if(listener_->queue, [&](const StreamEvent& event) {
        const bool is_known = event.row != 0 && event.row <= row;
        if (is_known) listener_->bytes -= event.json->size();
        return is_known;
    });
}

EventLog::Batch EventLog::Subscription::wait_until(shared::TimePoint when) {
    std::unique_lock lock(log_->mutex_);
    listener_->changed.wait_until(lock, when, [this] {
        return !listener_->queue.empty() || listener_->overflowed || log_->closed_;
    });
    Batch batch;
    batch.events.assign(listener_->queue.begin(), listener_->queue.end());
    listener_->queue.clear();
    listener_->bytes = 0;
    batch.overflowed = listener_->overflowed;
    batch.closed = log_->closed_;
    return batch;
}

}  // namespace sessions
