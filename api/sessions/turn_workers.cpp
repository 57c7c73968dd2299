#include "api/sessions/turn_workers.h"

#include <algorithm>
#include <system_error>

#include "shared/log.h"

namespace sessions {

TurnWorkers::~TurnWorkers() {
    close(shared::TimePoint::max());
}

void TurnWorkers::run(std::function<void()> job) {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
    if (closing_) return;  // letting go of what it holds is not for this thread
    for (const auto id : ended_) {
        const auto thread = std::find_if(threads_.begin(), threads_.end(),
                                         [id](const auto& each) { return each.get_id() == id; });
        thread->join();  // it has let the lock go and only returns
        threads_.erase(thread);
    }
    ended_.clear();
    if (idle_ >= jobs_.size() || threads_.size() >= kMaxWorkers) {
        changed_.notify_one();
        return;
    }
    try {
        threads_.emplace_back([this] { work(); });
        ++alive_;
    } catch (const std::system_error& fault) {
        // Those that run will come to it; without any, the next job tries again.
        shared::log_warning("no thread for a turn", {{"why", fault.what()}});
    }
}

void TurnWorkers::work() {
    std::unique_lock lock(mutex_);
    for (;;) {
        ++idle_;
        const bool woken =
            changed_.wait_for(lock, kIdleWorker, [this] { return closing_ || !jobs_.empty(); });
        --idle_;
        if (closing_ || !woken) break;
        auto job = std::move(jobs_.front());
        jobs_.pop_front();
        lock.unlock();
        job();
        job = nullptr;  // what it holds must not be let go under the lock
        lock.lock();
    }
    ended_.push_back(std::this_thread::get_id());
    --alive_;
    closed_.notify_all();
}

bool TurnWorkers::pause(shared::Milliseconds time) {
    std::unique_lock lock(mutex_);
    return !closed_.wait_for(lock, time, [this] { return closing_; });
}

bool TurnWorkers::closing() const {
    std::lock_guard lock(mutex_);
    return closing_;
}

bool TurnWorkers::close(shared::TimePoint deadline) {
    std::unique_lock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
    closed_.notify_all();
    const auto all_ended = [this] { return alive_ == 0; };
    if (deadline == shared::TimePoint::max())
        closed_.wait(lock, all_ended);
    else if (!closed_.wait_until(lock, deadline, all_ended))
        return false;
    lock.unlock();  // the last ones let it go and return
    for (auto& thread : threads_) thread.join();
    threads_.clear();
    ended_.clear();
    return true;
}

}  // namespace sessions
