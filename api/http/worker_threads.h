// As many threads as there is work, each with a small stack; an idle one waits a while for more.
// The owner bounds how much it hands over.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "shared/clock.h"

namespace http {

class WorkerThreads {
  public:
    explicit WorkerThreads(std::size_t stack_bytes);
    /// close() without a wait: threads that still work live on by themselves.
    ~WorkerThreads();
    WorkerThreads(const WorkerThreads&) = delete;
    WorkerThreads& operator=(const WorkerThreads&) = delete;

    /// Runs `job` on a thread of its own, at once. False: the system gives no more threads, and
    /// `job` was not run. `job` must not throw. Thread-safe.
    bool run(std::function<void()> job);

    /// Takes no more work and waits for all threads to end. False: some still work.
    bool close(shared::TimePoint deadline);

  private:
    struct State;
    std::shared_ptr<State> state_;
};

/// For a thread of a WorkerThreads that is about to sleep for long: the pages of its stack that deep
/// calls touched and nothing uses now go back to the system. A system call or two; never fails.
void release_unused_stack();

}  // namespace http
