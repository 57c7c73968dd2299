#include "api/sessions/delta_publisher.h"

#include "api/sessions/transcript_json.h"

namespace sessions {

void DeltaPublisher::add(const char* type, std::string_view text) {
    const std::lock_guard lock(mutex_);
    if (type_ != type) flush(lock);
    type_ = type;
    text_ += text;
    const auto now = shared::Monotonic::now();
    if (now - last_ >= kDeltaPeriod || text_.size() >= kDeltaBytes) return flush(lock);
    if (armed_) return;
    armed_ = true;
    loop_.at(last_ + kDeltaPeriod, [self = shared_from_this()] {
        const std::lock_guard due(self->mutex_);
        self->armed_ = false;
        self->flush(due);
    });
}

void DeltaPublisher::flush() {
    const std::lock_guard lock(mutex_);
    flush(lock);
}

void DeltaPublisher::flush(const std::lock_guard<std::mutex>&) {
    if (text_.empty()) return;
    conversation_->log.publish(delta_event(type_, text_));
    text_.clear();
    last_ = shared::Monotonic::now();
}

}  // namespace sessions
