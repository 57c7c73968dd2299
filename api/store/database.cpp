#include "api/store/database.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "api/store/migrations.h"
#include "api/store/sqlite_connection.h"
#include "shared/log.h"

namespace store {

using shared::Error;
using shared::ErrorCode;
using shared::Milliseconds;
using shared::Monotonic;
using shared::Result;
using shared::TimePoint;

namespace {

constexpr std::size_t kMaxGroup = 256;     // bounds how long the first waits for the last
constexpr Milliseconds kBusyTimeout{100};  // then callers whose time is up are let go
constexpr Milliseconds kCloseDeadline{2'000};
constexpr Milliseconds kLogPeriod{60'000};
constexpr int kCheckpointPages = 1'000;  // 4 MB: when nothing is waiting
constexpr int kMustCheckpointPages = 8'000;
constexpr int kMaxWalPages = 65'536;  // 256 MB: somebody reads without end; writes are refused

/// What a blocked caller and the store thread share.
struct Ticket {
    std::mutex mutex;
    std::condition_variable answered;
    enum class Phase : std::uint8_t { waiting, running, done, withdrawn } phase = Phase::waiting;
    Result<void> result;

    /// False: the caller has given up; the work must not be done.
    bool begin() {
        std::lock_guard lock(mutex);
        if (phase == Phase::waiting) phase = Phase::running;
        return phase == Phase::running;
    }
    bool withdrawn() {
        std::lock_guard lock(mutex);
        return phase == Phase::withdrawn;
    }
    void finish(const Result<void>& outcome) {
        // Told under the lock: the caller may free nothing that is used here, the ticket is shared.
        std::lock_guard lock(mutex);
        if (phase == Phase::withdrawn) return;
        phase = Phase::done;
        result = outcome;
        answered.notify_one();
    }
};

struct Job {
    Database::Work work;
    Database::Done done;
    std::shared_ptr<Ticket> ticket;  // of a call()
};

bool is_withdrawn(const Job& job) {
    return job.ticket && job.ticket->withdrawn();
}

void finish(const Job& job, const Result<void>& result) {
    if (job.ticket) job.ticket->finish(result);
    if (!job.done) return;
    try {
        job.done(result);
    } catch (const std::exception& fault) {
        shared::log_error("a store completion failed", {{"what", fault.what()}});
    }
}

}  // namespace

struct Database::State {
    std::mutex mutex;
    std::condition_variable work_came, thread_ended;
    std::deque<Job> queue;
    TimePoint due_at = TimePoint::max();    // when the queue must be looked at
    TimePoint wakes_at = TimePoint::min();  // when the sleeping thread does so by itself
    bool stopping = false;
    TimePoint stop_at;
    bool ended = false;

    // The store thread's own.
    std::unique_ptr<SqliteConnection> connection;
    std::optional<TimePoint> logged_at;

    bool submit(Job job, Milliseconds delay = {});
    void wait_for_work(std::unique_lock<std::mutex>& lock);
    void loop();
    std::vector<Job> next_group();
    bool late();
    void commit(std::vector<Job> group);
    Result<void> begin(std::vector<Job>& group);
    Result<void> attempt(const Job* jobs, std::size_t count, std::vector<Result<void>>& results);
    Result<void> run_one(const Job& job);
    void tend_log();
    void complain(const Error& error);
};

bool Database::State::submit(Job job, Milliseconds delay) {
    std::lock_guard lock(mutex);
    if (stopping) return false;
    if (queue.size() >= kMaxQueued) job.work = nullptr;  // told in its turn, costs next to nothing
    queue.push_back(std::move(job));
    due_at = std::min(due_at, Monotonic::now() + delay);
    if (due_at < wakes_at) work_came.notify_one();
    return true;
}

void Database::State::loop() {
    while (true) {
        auto group = next_group();
        if (group.empty()) break;
        commit(std::move(group));
        tend_log();
    }
    connection.reset();
    std::lock_guard lock(mutex);
    ended = true;
    thread_ended.notify_all();
}

/// Until something is due. After work it looks again by itself within kShareDelay, so that the end
/// of a short cell, which comes with post_soon(), need not wake this thread.
void Database::State::wait_for_work(std::unique_lock<std::mutex>& lock) {
    auto linger_until = Monotonic::now() + kShareDelay;
    while (!stopping && due_at > Monotonic::now()) {
        wakes_at = std::min(due_at, linger_until);
        if (wakes_at == TimePoint::max())
            work_came.wait(lock);
        else if (work_came.wait_until(lock, wakes_at) == std::cv_status::timeout)
            linger_until = TimePoint::max();
    }
    wakes_at = TimePoint::min();  // awake
}

std::vector<Job> Database::State::next_group() {
    std::unique_lock lock(mutex);
    wait_for_work(lock);
    std::vector<Job> group;
    while (!queue.empty() && group.size() < kMaxGroup) {
        group.push_back(std::move(queue.front()));
        queue.pop_front();
    }
    due_at = queue.empty() ? TimePoint::max() : TimePoint::min();
    return group;
}

bool Database::State::late() {
    std::lock_guard lock(mutex);
    return stopping && Monotonic::now() >= stop_at;
}

void Database::State::commit(std::vector<Job> group) {
    auto begun =
        late() ? Result<void>(Error{ErrorCode::unavailable, "the daemon stops", {}}) : begin(group);
    std::erase_if(group, [&](const Job& job) { return (job.ticket && !job.ticket->begin()); });
    std::vector<Result<void>> results(group.size());
    if (!begun) {
        std::fill(results.begin(), results.end(), begun);
    } else if (auto whole = attempt(group.data(), group.size(), results); !whole) {
        // Each by itself, so that the reader beside a writer on a full disk has its answer.
        for (std::size_t i = 0; i < group.size(); ++i) {
            std::vector<Result<void>> alone(1);
            auto done = connection->script("BEGIN IMMEDIATE");
            if (done) done = attempt(&group[i], 1, alone);
            results[i] = done ? alone.front() : done;
        }
    }
    for (std::size_t i = 0; i < group.size(); ++i) {
        if (!results[i] && results[i].error().code == ErrorCode::storage)
            complain(results[i].error());
        finish(group[i], results[i]);
    }
}

/// Opens the transaction. Waits as long as another program holds the database; callers who give up
/// meanwhile leave the group.
Result<void> Database::State::begin(std::vector<Job>& group) {
    while (true) {
        auto begun = connection->script("BEGIN IMMEDIATE");
        if (begun || begun.error().code != ErrorCode::unavailable) return begun;
        complain(begun.error());
        std::erase_if(group, is_withdrawn);
        if (group.empty() || late()) return begun;
    }
}

/// Runs the jobs in the open transaction and commits. An error: nothing of it counts.
Result<void> Database::State::attempt(const Job* jobs, std::size_t count,
                                      std::vector<Result<void>>& results) {
    Result<void> whole;
    for (std::size_t i = 0; i < count; ++i) {
        results[i] = run_one(jobs[i]);
        if (connection->in_transaction()) continue;
        // SQLite gave the whole transaction up.
        whole = results[i] ? Error{ErrorCode::storage, "the transaction was rolled back", {}}
                           : results[i].error();
        break;
    }
    if (whole) {
        if (auto committed = connection->run("COMMIT"); !committed)
            whole = std::move(committed).error();
    }
    if (!whole && connection->in_transaction()) (void)connection->script("ROLLBACK");
    return whole;
}

Result<void> Database::State::run_one(const Job& job) {
    if (!job.work)
        return Error{ErrorCode::overloaded, "too much waits for the daemon's database", {}};
    if (auto saved = connection->run("SAVEPOINT job"); !saved) return std::move(saved).error();
    Result<void> result;
    try {
        result = job.work(*connection);
    } catch (const std::exception& fault) {
        result = Error{ErrorCode::failed, std::string("a store job failed: ") + fault.what(), {}};
        shared::log_error("a store job failed", {{"what", fault.what()}});
    }
    if (!result && connection->in_transaction()) (void)connection->run("ROLLBACK TO job");
    if (connection->in_transaction()) {
        auto released = connection->run("RELEASE job");
        if (!released && result) result = std::move(released).error();
    }
    return result;
}

/// Keeps the write-ahead log bounded. Writes are refused, reads are not, while another program's
/// endless read keeps it from being emptied.
void Database::State::tend_log() {
    const int pages = connection->wal_pages();
    if (pages < kCheckpointPages) return;
    if (pages < kMustCheckpointPages) {
        std::lock_guard lock(mutex);
        if (!queue.empty()) return;
    }
    const bool too_long = pages >= kMaxWalPages;
    connection->checkpoint(too_long);
    if (!too_long) return;
    const bool refuse = connection->wal_pages() >= kMaxWalPages;
    (void)connection->script(refuse ? "PRAGMA query_only = 1" : "PRAGMA query_only = 0");
    if (refuse)
        complain({ErrorCode::storage,
                  "the write-ahead log cannot be emptied: another program keeps reading",
                  {}});
}

void Database::State::complain(const Error& error) {
    const auto now = Monotonic::now();
    if (logged_at && now - *logged_at < kLogPeriod) return;
    logged_at = now;
    shared::log_error("the database refuses", {{"what", error.message}});
}

Result<std::unique_ptr<Database>> Database::open(DatabaseOptions options) {
    auto opened = SqliteConnection::open(options.path);
    if (!opened) return std::move(opened).error();
    auto state = std::make_shared<State>();
    state->connection = std::move(*opened);
    auto& connection = *state->connection;
    connection.set_busy_timeout(options.open_deadline);
    // The version is looked at before anything that could write, the journal mode included.
    if (auto judged = check_version(connection, options.migrations); !judged)
        return std::move(judged).error();
    for (const char* setting : {"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL",
                                "PRAGMA foreign_keys = ON", "PRAGMA journal_size_limit = 8388608"})
        if (auto set = connection.script(setting); !set) return std::move(set).error();
    if (auto migrated = migrate(connection, options.migrations); !migrated)
        return std::move(migrated).error();
    connection.set_busy_timeout(kBusyTimeout);
    // Shared with the thread, which may outlive a destructor that gave up on a dead disk.
    std::thread([state] { state->loop(); }).detach();
    return std::unique_ptr<Database>(new Database(std::move(state)));
}

Database::Database(std::shared_ptr<State> state) : state_(std::move(state)) {}

Database::~Database() {
    std::unique_lock lock(state_->mutex);
    state_->stopping = true;
    state_->stop_at = Monotonic::now() + kCloseDeadline;
    state_->work_came.notify_all();
    const auto give_up = state_->stop_at + kCloseDeadline;
    if (!state_->thread_ended.wait_until(lock, give_up, [&] { return state_->ended; }))
        shared::log_error("the database did not close in time");
}

void Database::post(Work work, Done done) {
    (void)state_->submit({std::move(work), std::move(done), nullptr});
}

void Database::post_soon(Work work, Done done) {
    (void)state_->submit({std::move(work), std::move(done), nullptr}, kShareDelay);
}

Result<void> Database::call_void(Work work, TimePoint deadline) {
    auto ticket = std::make_shared<Ticket>();
    if (!state_->submit({std::move(work), nullptr, ticket}))
        return Error{ErrorCode::unavailable, "the daemon stops", {}};
    std::unique_lock lock(ticket->mutex);
    const auto done = [&] { return ticket->phase == Ticket::Phase::done; };
    if (ticket->answered.wait_until(lock, deadline, done)) return ticket->result;
    if (ticket->phase == Ticket::Phase::waiting) {
        ticket->phase = Ticket::Phase::withdrawn;
        return Error{ErrorCode::unavailable,
                     "the daemon's database did not come round in time; nothing was done",
                     {}};
    }
    return Error{ErrorCode::timed_out,
                 "the daemon's database did not finish in time; whether it counts is unknown",
                 {}};
}

}  // namespace store
