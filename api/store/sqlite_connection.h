// The one SQLite handle, its prepared statements and the translation of its errors. Not
// thread-safe; used by the store thread, and by Database::open() before that thread starts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "api/store/database.h"
#include "shared/clock.h"
#include "shared/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace store {

class SqliteConnection final : public Connection {
  public:
    /// Opens or makes the file with mode 0600. Reads and changes nothing in it yet.
    /// Errors: storage.
    static shared::Result<std::unique_ptr<SqliteConnection>> open(const std::string& path);
    ~SqliteConnection() override;
    SqliteConnection(const SqliteConnection&) = delete;
    SqliteConnection& operator=(const SqliteConnection&) = delete;

    shared::Result<std::int64_t> run(std::string_view sql, const Values& values = {}) override;
    shared::Result<void> query(std::string_view sql, const Values& values,
                               const std::function<void(const Row&)>& each) override;

    /// Several statements, not kept. Errors: as run(), and unavailable when another program holds
    /// the database for longer than the busy timeout.
    shared::Result<void> script(const std::string& sql);
    void set_busy_timeout(shared::Milliseconds timeout);
    /// False also when SQLite rolled a transaction back by itself, as it may on a full disk.
    bool in_transaction() const;

    /// Pages in the write-ahead log after the newest commit of ours.
    int wal_pages() const { return wal_pages_; }
    /// Copies the log into the database as far as no reader stands in the way. `truncate`: waits
    /// for readers up to the busy timeout and empties the log.
    void checkpoint(bool truncate);
    /// For a file that is not ours to change: closing leaves its log as it is.
    void leave_log_at_close();

  private:
    struct Finalize {
        void operator()(sqlite3_stmt* statement) const;
    };
    using Prepared = std::unique_ptr<sqlite3_stmt, Finalize>;
    struct Hash {
        using is_transparent = void;
        std::size_t operator()(std::string_view text) const {
            return std::hash<std::string_view>{}(text);
        }
    };
    /// A statement in use: bound by its maker, reset and unbound at its end.
    class Use;

    explicit SqliteConnection(sqlite3* handle);
    shared::Result<Prepared> prepare(std::string_view sql);
    shared::Error error(std::string_view what) const;

    sqlite3* handle_;
    std::unordered_map<std::string, Prepared, Hash, std::equal_to<>> statements_;
    int wal_pages_ = 0;
};

}  // namespace store
