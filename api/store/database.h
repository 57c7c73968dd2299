// The daemon's SQLite database: one connection, owned by one thread. The tables are in
// *_table.cpp beside this; here is how work reaches them and when it counts.
//
//  1. post() and call() queue a closure, from any thread; they run in that order.
//  2. The store thread takes all that is queued into one transaction, each closure within a
//     savepoint: one that fails is undone alone. A closure may be run again when the transaction
//     as a whole failed (disk full), so it must change nothing but the connection.
//     What came by post_soon() does not start a transaction for kShareDelay: it goes with the next
//     work that does. A commit costs the same for one closure as for ten.
//  3. After the commit (synchronous=FULL: it is on the disk) the completions run, on the store
//     thread: they must not block, nor call().
//
// Disk full or broken: the closures that write fail with `storage`, those that read go on, and
// nothing has to be done once there is room. Another program that holds the database makes
// everything wait; call() then gives up at its deadline with `unavailable` and is not done later.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "shared/clock.h"
#include "shared/result.h"

namespace store {

/// What is bound to a `?`. Text is lent for the time of the call and may hold any bytes.
class Value {
  public:
    enum class Kind : std::uint8_t { null, integer, real, text };
    Value() = default;
    Value(std::nullopt_t) {}
    template <std::integral T>
    Value(T number) : kind(Kind::integer), integer(static_cast<std::int64_t>(number)) {}
    Value(double number) : kind(Kind::real), real(number) {}
    Value(std::string_view bytes) : kind(Kind::text), text(bytes) {}
    Value(const std::string& bytes) : kind(Kind::text), text(bytes) {}
    Value(const char* bytes) : kind(Kind::text), text(bytes) {}
    template <class T>
    Value(const std::optional<T>& maybe) : Value(maybe ? Value(*maybe) : Value()) {}

    Kind kind = Kind::null;
    std::int64_t integer = 0;
    double real = 0;
    std::string_view text;
};
using Values = std::vector<Value>;

/// One row of an answer, valid within the callback only. Columns count from 0.
class Row {
  public:
    explicit Row(void* statement) : statement_(statement) {}
    bool is_null(int column) const;
    std::int64_t integer(int column) const;  // 0 for null
    double real(int column) const;
    std::string text(int column) const;  // empty for null
    std::optional<std::string> optional_text(int column) const;

  private:
    void* statement_;
};

/// The connection as a closure sees it; store thread only. Statements are prepared once each.
class Connection {
  public:
    virtual ~Connection() = default;
    /// Runs one statement. Result: rows changed. Errors: conflict (unique, primary key), invalid
    /// (foreign key, check, not null), storage (full, read-only, broken), failed.
    virtual shared::Result<std::int64_t> run(std::string_view sql, const Values& values = {}) = 0;
    /// Runs one query and calls `each` per row. Errors: as above.
    virtual shared::Result<void> query(std::string_view sql, const Values& values,
                                       const std::function<void(const Row&)>& each) = 0;
};

struct DatabaseOptions {
    std::string path{};  // of the file; its folder exists
    /// Scripts of statements; number i (from 0) brings version i to i + 1. Only ever appended to.
    std::vector<std::string> migrations{};
    shared::Milliseconds open_deadline{10'000};  // while another program holds the file
};

class Database {
  public:
    using Work = std::function<shared::Result<void>(Connection&)>;
    using Done = std::function<void(const shared::Result<void>&)>;

    /// Opens or makes the file (0600), brings it to the newest version, starts the thread.
    /// Errors: unsupported (written by a newer version; untouched), storage.
    static shared::Result<std::unique_ptr<Database>> open(DatabaseOptions options);
    /// Finishes what is queued within 2 s; what is left then fails with `unavailable`.
    ~Database();
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;

    /// Never blocks. Beyond kMaxQueued waiting ones, `done` gets `overloaded`.
    void post(Work work, Done done);
    /// The same for what nobody waits for: it may begin kShareDelay later, still in its order.
    void post_soon(Work work, Done done);

    /// Blocks until `work` is committed, or the deadline. Not from the store thread nor a loop.
    /// Errors: those of `work`; unavailable (not begun, will not be done, nothing changed);
    /// timed_out (under way; whether it counts is unknown).
    template <class T>
    shared::Result<T> call(std::function<shared::Result<T>(Connection&)> work,
                           shared::TimePoint deadline);

    static constexpr std::size_t kMaxQueued = 16'384;
    static constexpr shared::Milliseconds kShareDelay{15};  // well below a link's ack delay

  private:
    struct State;
    explicit Database(std::shared_ptr<State> state);
    shared::Result<void> call_void(Work work, shared::TimePoint deadline);
    std::shared_ptr<State> state_;
};

template <class T>
shared::Result<T> Database::call(std::function<shared::Result<T>(Connection&)> work,
                                 shared::TimePoint deadline) {
    if constexpr (std::is_void_v<T>) {
        return call_void(std::move(work), deadline);
    } else {
        // Shared: the closure may still be under way when the caller has given up.
        auto answer = std::make_shared<std::optional<T>>();
        auto done = call_void(
            [work = std::move(work), answer](Connection& connection) -> shared::Result<void> {
                auto result = work(connection);
                if (!result) return std::move(result).error();
                answer->emplace(std::move(*result));
                return {};
            },
            deadline);
        if (!done) return std::move(done).error();
        return std::move(**answer);
    }
}

}  // namespace store
