// A descriptor watched and a time awaited in the supervisor's loop, safe to drop at any moment,
// also from inside their own handlers: a handler that was already queued then finds nobody.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

#include "shared/clock.h"

namespace supervisor {

/// Calls `readable` each time the lent descriptor can be read. Level-triggered: the handler takes
/// what it wants, the rest is told again. Must be dropped before the descriptor is closed.
class FdWatch {
  public:
    /// Throws std::system_error when the descriptor cannot be watched.
    FdWatch(boost::asio::io_context& loop, int fd, std::function<void()> readable);
    FdWatch(const FdWatch&) = delete;
    FdWatch& operator=(const FdWatch&) = delete;
    ~FdWatch();

    /// Calls `writable` once, when something can be written. Asking again meanwhile changes
    /// nothing.
    void once_writable(std::function<void()> writable);

  private:
    struct State;
    static void wait(const std::shared_ptr<State>& state);
    std::shared_ptr<State> state_;
};

/// Calls `rang` once at the time set last; set() and clear() forget the time before.
class Alarm {
  public:
    Alarm(boost::asio::io_context& loop, std::function<void()> rang);
    Alarm(const Alarm&) = delete;
    Alarm& operator=(const Alarm&) = delete;
    ~Alarm();

    void set(shared::TimePoint when);
    void clear();

  private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace supervisor
