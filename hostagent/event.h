// Something coroutines of one loop wait for: a condition that another handler makes true.
//
// notify() wakes everyone who waits now; each looks at its own condition again. Not thread-safe.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>

#include "shared/clock.h"

namespace hostagent {

namespace asio = boost::asio;

/// Completion by value instead of by exception: errors of the system are expected here.
inline constexpr auto kByTuple = asio::as_tuple(asio::use_awaitable);

class Event {
  public:
    explicit Event(const asio::any_io_executor& executor) : timer_(executor) {
        timer_.expires_at(shared::TimePoint::max());
    }
    void notify() { timer_.expires_at(shared::TimePoint::max()); }
    asio::awaitable<void> wait() { co_await timer_.async_wait(kByTuple); }

  private:
    asio::steady_timer timer_;
};

/// Calls `ring` at `deadline`, unless it is destroyed before: then never, even when the timer's own
/// handler is queued already.
class Alarm {
  public:
    template <class Ring>
    Alarm(const asio::any_io_executor& executor, shared::TimePoint deadline, Ring ring)
        : timer_(executor, deadline), armed_(std::make_shared<bool>(true)) {
        timer_.async_wait([armed = armed_, ring](const boost::system::error_code& error) mutable {
            if (!error && *armed) ring();
        });
    }
    Alarm(const Alarm&) = delete;
    Alarm& operator=(const Alarm&) = delete;
    ~Alarm() { *armed_ = false; }

  private:
    asio::steady_timer timer_;
    std::shared_ptr<bool> armed_;
};

/// Until `deadline`, or until `condition()` is true; looked at after each notify(). Gives
/// condition().
template <class Condition>
asio::awaitable<bool> wait_for(Event& event, shared::TimePoint deadline, Condition condition) {
    if (condition()) co_return true;
    bool late = false;
    const Alarm alarm(co_await asio::this_coro::executor, deadline, [&late, &event] {
        late = true;
        event.notify();
    });
    while (!condition() && !late) co_await event.wait();
    co_return condition();
}

}  // namespace hostagent
