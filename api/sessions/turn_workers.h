// Threads for what turns do and must wait for: at most kMaxWorkers, made when there is work, gone
// after a while without. Work beyond waits in order. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "shared/clock.h"

namespace sessions {

inline constexpr std::size_t kMaxWorkers = 64;
inline constexpr shared::Milliseconds kIdleWorker{10'000};

class TurnWorkers {
  public:
    TurnWorkers() = default;
    /// Waits for jobs under way, unless close() failed.
    ~TurnWorkers();
    TurnWorkers(const TurnWorkers&) = delete;
    TurnWorkers& operator=(const TurnWorkers&) = delete;

    /// Never blocks. `job` must not throw. After close() it is kept, but not run.
    void run(std::function<void()> job);
    /// For a job: waits that long; false at once when close() was called.
    bool pause(shared::Milliseconds time);
    bool closing() const;
    /// Runs nothing more; jobs under way see closing(). False: some were still busy at the
    /// deadline, their threads live on, and the process should end by _exit.
    bool close(shared::TimePoint deadline);

  private:
    void work();

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::condition_variable closed_;
    std::deque<std::function<void()>> jobs_;
    std::vector<std::thread> threads_;
    std::vector<std::thread::id> ended_;  // to be joined by the next run()
    std::size_t idle_ = 0;
    std::size_t alive_ = 0;
    bool closing_ = false;
};

}  // namespace sessions
