// Says "stop" once, from any thread, to whoever works or waits for a turn.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>

#include "shared/clock.h"

namespace providers {

/// Thread-safe. Owned by the turn; outlives everything it was lent to.
class CancelToken {
  public:
    CancelToken() = default;
    CancelToken(const CancelToken&) = delete;
    CancelToken& operator=(const CancelToken&) = delete;

    /// Runs what is subscribed, in this thread. Later calls do nothing.
    void cancel();
    bool cancelled() const;
    /// Waits until then or until cancelled; whether it was cancelled.
    bool wait_until(shared::TimePoint when) const;

    /// Ends the subscription when it goes; after that the function does not run any more.
    class Subscription {
      public:
        Subscription(CancelToken& token, std::function<void()> function);
        ~Subscription();
        Subscription(const Subscription&) = delete;
        Subscription& operator=(const Subscription&) = delete;

      private:
        CancelToken& token_;
        std::list<std::function<void()>>::iterator place_;
    };

  private:
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    bool cancelled_ = false;
    std::list<std::function<void()>> functions_;  // must not touch the token
};

}  // namespace providers
