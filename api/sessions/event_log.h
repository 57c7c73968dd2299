// One session's stream of events in memory: who listens gets each event once and in order, or is
// told that it missed some. Thread-safe; publication never waits for a listener.
//
// A cursor counts events from 1 within a generation (one daemon's life). A listener that names a
// cursor still held goes on after it; any other gets `reset` and reads the durable history:
//   1. subscribe: from here on events collect in the queue;
//   2. read the rows from the store, the last of them being row R;
//   3. skip_rows_through(R): rows published in between are not given twice.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "shared/clock.h"

namespace sessions {

inline constexpr std::size_t kReplayEvents = 256;
inline constexpr std::size_t kReplayBytes = 4 << 20;
inline constexpr std::size_t kQueueEvents = 256;
inline constexpr std::size_t kQueueBytes = 1 << 20;

struct StreamEvent {
    std::uint64_t cursor = 0;
    std::int64_t row = 0;  // the transcript row it shows; 0 for what is not durable
    std::shared_ptr<const std::string> json;
};

class EventLog {
  private:
    struct Listener {
        std::deque<StreamEvent> queue;
        std::size_t bytes = 0;
        std::int64_t skipped_through = 0;
        bool overflowed = false;
        std::function<void()> wake;
        std::condition_variable changed;
        void notify() {
            changed.notify_one();
            if (wake) wake();
        }
    };

  public:
    explicit EventLog(std::string generation) : generation_(std::move(generation)) {}

    const std::string& generation() const { return generation_; }
    std::uint64_t cursor() const;
    /// A row's event is published after its transaction committed.
    void publish(std::string json, std::int64_t row = 0);
    /// Wakes all listeners for good: the session or the daemon ends.
    void close();

    /// What a listener has to send next.
    struct Batch {
        std::vector<StreamEvent> events;
        bool overflowed = false;  // it read too slowly: say so and close
        bool closed = false;
    };

    /// Must not outlive the log. One thread.
    class Subscription {
      public:
        Subscription(Subscription&&) = default;
        ~Subscription();
        /// The durable history has to be read first.
        bool is_reset() const { return is_reset_; }
        std::uint64_t start() const { return start_; }  // the cursor it stands at
        void skip_rows_through(std::int64_t row);
        /// Called at every change from now on, by whoever publishes; it must not wait. For a
        /// listener that also waits for something else: take() then instead of wait_until().
        void set_wake(std::function<void()> wake);
        /// What there is to send; perhaps nothing.
        Batch take() { return wait_until({}); }
        /// Waits until there is something to send, or until then.
        Batch wait_until(shared::TimePoint when);

      private:
        friend class EventLog;
        Subscription() = default;
        EventLog* log_ = nullptr;
        std::shared_ptr<Listener> listener_;
        bool is_reset_ = false;
        std::uint64_t start_ = 0;
    };

    /// `generation` and `after` as the listener had them; none: reset.
    Subscription subscribe(const std::string& generation, std::optional<std::uint64_t> after);
    std::size_t listeners() const;

  private:
    const std::string generation_;
    mutable std::mutex mutex_;
    std::deque<StreamEvent> replay_;
    std::size_t replay_bytes_ = 0;
    std::uint64_t cursor_ = 0;
    std::list<std::shared_ptr<Listener>> listeners_;
    bool closed_ = false;
};

}  // namespace sessions
