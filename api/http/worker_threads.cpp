#include "api/http/worker_threads.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

namespace http {

using shared::Milliseconds;
using shared::TimePoint;

namespace {

constexpr Milliseconds kIdlePeriod{5'000};  // a burst's threads are reused, then given back

// More than the rest of the releasing function's own frame and that of madvise, which must stay.
constexpr std::size_t kReleasingFrameBytes = 256;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kStackFactor = 4;  // instrumented frames are that much larger
#else
constexpr std::size_t kStackFactor = 1;
#endif

}  // namespace

struct WorkerThreads::State {
    std::size_t stack_bytes;
    std::mutex mutex;
    std::condition_variable work_came, thread_ended;
    std::deque<std::function<void()>> waiting;  // each has an idle thread that will take it
    std::size_t idle = 0;
    std::size_t threads = 0;
    bool closed = false;

    void loop(std::function<void()> job);
    void ended() {
        std::lock_guard lock(mutex);
        --threads;
        thread_ended.notify_all();
    }
};

void WorkerThreads::State::loop(std::function<void()> job) {
    while (job) {
        job();
        job = nullptr;
        std::unique_lock lock(mutex);
        ++idle;
        work_came.wait_for(lock, kIdlePeriod, [&] { return closed || !waiting.empty(); });
        --idle;
        if (!waiting.empty()) {
            job = std::move(waiting.front());
            waiting.pop_front();
        }
    }
}

WorkerThreads::WorkerThreads(std::size_t stack_bytes) : state_(std::make_shared<State>()) {
    state_->stack_bytes = stack_bytes * kStackFactor;
}

WorkerThreads::~WorkerThreads() {
    (void)close(TimePoint{});
}

bool WorkerThreads::run(std::function<void()> job) {
    std::unique_lock lock(state_->mutex);
    if (state_->closed) return false;
    if (state_->idle > state_->waiting.size()) {
        state_->waiting.push_back(std::move(job));
        state_->work_came.notify_one();
        return true;
    }
    ++state_->threads;
    lock.unlock();
    struct Start {
        std::shared_ptr<State> state;
        std::function<void()> job;
    };
    auto start = std::make_unique<Start>(Start{state_, std::move(job)});
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, state_->stack_bytes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    const int failed = pthread_create(
        &thread, &attributes,
        [](void* given) -> void* {
            auto mine = std::unique_ptr<Start>(static_cast<Start*>(given));
            auto state = std::move(mine->state);
            auto first = std::move(mine->job);
            mine.reset();
            state->loop(std::move(first));
            state->ended();
            return nullptr;
        },
        start.get());
    pthread_attr_destroy(&attributes);
    if (failed == 0) {
        (void)start.release();  // the thread's now
        return true;
    }
    lock.lock();
    --state_->threads;
    return false;
}

void release_unused_stack() {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    void* lowest = nullptr;
    std::size_t size = 0;
    pthread_attr_getstack(&attributes, &lowest, &size);
    pthread_attr_destroy(&attributes);
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto end =
        (reinterpret_cast<std::uintptr_t>(&attributes) - kReleasingFrameBytes) / page * page;
    const auto from = reinterpret_cast<std::uintptr_t>(lowest);
    if (end > from) (void)::madvise(lowest, end - from, MADV_DONTNEED);
}

bool WorkerThreads::close(TimePoint deadline) {
    std::unique_lock lock(state_->mutex);
    state_->closed = true;
    state_->work_came.notify_all();
    return state_->thread_ended.wait_until(lock, deadline, [&] { return state_->threads == 0; });
}

}  // namespace http
