// The api's one event loop. It owns Asio, which no other file of the api's names.
//
// Handlers run on the thread that called run(), one at a time, and never block: no disk, no SQLite,
// no wait. What they share with other threads they guard by the Monitor. An exception out of a
// handler is a fault and leaves through run().
#pragma once

#include <functional>
#include <memory>

#include "shared/clock.h"

namespace agents {

class Loop {
  public:
    Loop();
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;
    ~Loop();

    /// Returns after stop().
    void run();
    // Any thread:
    void stop();
    void post(std::function<void()> handler);
    /// Runs the handler once, at `when` or soon after; there is no taking back.
    void at(shared::TimePoint when, std::function<void()> handler);

    /// Calls the handler whenever `fd` is readable, for as long as the Watch lives. The descriptor
    /// is lent: whoever owns it destroys the Watch first. Loop thread, or before run().
    class Watch {
      public:
        Watch() = default;
        Watch(Watch&&) noexcept;
        Watch& operator=(Watch&&) noexcept;
        ~Watch();

      private:
        friend class Loop;
        struct State;
        std::shared_ptr<State> state_;
    };
    [[nodiscard]] Watch watch(int fd, std::function<void()> readable);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace agents
