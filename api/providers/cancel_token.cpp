#include "api/providers/cancel_token.h"

namespace providers {

void CancelToken::cancel() {
    std::lock_guard lock(mutex_);
    if (cancelled_) return;
    cancelled_ = true;
    changed_.notify_all();
    for (const auto& function : functions_) function();
}

bool CancelToken::cancelled() const {
    std::lock_guard lock(mutex_);
    return cancelled_;
}

bool CancelToken::wait_until(shared::TimePoint when) const {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, when, [this] { return cancelled_; });
}

CancelToken::Subscription::Subscription(CancelToken& token, std::function<void()> function)
    : token_(token) {
    std::lock_guard lock(token_.mutex_);
    place_ = token_.functions_.insert(token_.functions_.end(), std::move(function));
    if (token_.cancelled_) (*place_)();
}

CancelToken::Subscription::~Subscription() {
    std::lock_guard lock(token_.mutex_);
    token_.functions_.erase(place_);
}

}  // namespace providers
