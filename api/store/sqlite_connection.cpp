#include "api/store/sqlite_connection.h"

#include <fcntl.h>
#include <sqlite3.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "shared/unique_fd.h"

namespace store {

using shared::Error;
using shared::ErrorCode;
using shared::Result;

namespace {

// Statements are written in our sources, some tens of them; a text built at run time is the only
// way past this, and is then prepared anew each time.
constexpr std::size_t kMaxStatements = 256;

sqlite3_stmt* raw(void* statement) {
    return static_cast<sqlite3_stmt*>(statement);
}

ErrorCode code_of(int primary, int extended) {
    switch (primary) {
        case SQLITE_CONSTRAINT:
            return extended == SQLITE_CONSTRAINT_UNIQUE ||
                           extended == SQLITE_CONSTRAINT_PRIMARYKEY ||
                           extended == SQLITE_CONSTRAINT_ROWID
                       ? ErrorCode::conflict
                       : ErrorCode::invalid;
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
            return ErrorCode::unavailable;
        case SQLITE_FULL:
        case SQLITE_IOERR:
        case SQLITE_READONLY:
        case SQLITE_CANTOPEN:
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
        case SQLITE_PERM:
            return ErrorCode::storage;
        default:
            return ErrorCode::failed;
    }
}

int bind(sqlite3_stmt* statement, int index, const Value& value) {
    switch (value.kind) {
        case Value::Kind::null:
            return sqlite3_bind_null(statement, index);
        case Value::Kind::integer:
            return sqlite3_bind_int64(statement, index, value.integer);
        case Value::Kind::real:
            return sqlite3_bind_double(statement, index, value.real);
        case Value::Kind::text:
            // A null pointer would bind NULL where an empty text was meant.
            return sqlite3_bind_text64(statement, index,
                                       value.text.empty() ? "" : value.text.data(),
                                       value.text.size(), SQLITE_STATIC, SQLITE_UTF8);
    }
    return SQLITE_MISUSE;
}

}  // namespace

bool Row::is_null(int column) const {
    return sqlite3_column_type(raw(statement_), column) == SQLITE_NULL;
}
std::int64_t Row::integer(int column) const {
    return sqlite3_column_int64(raw(statement_), column);
}
double Row::real(int column) const {
    return sqlite3_column_double(raw(statement_), column);
}
std::string Row::text(int column) const {
    const void* bytes = sqlite3_column_blob(raw(statement_), column);
    const int size = sqlite3_column_bytes(raw(statement_), column);
    return bytes ? std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size))
                 : std::string();
}
std::optional<std::string> Row::optional_text(int column) const {
    if (is_null(column)) return std::nullopt;
    return text(column);
}

void SqliteConnection::Finalize::operator()(sqlite3_stmt* statement) const {
    sqlite3_finalize(statement);
}

class SqliteConnection::Use {
  public:
    static Result<Use> begin(SqliteConnection& connection, std::string_view sql,
                             const Values& values) {
        Use use(connection);
        if (auto kept = connection.statements_.find(sql);
            kept != connection.statements_.end() && !sqlite3_stmt_busy(kept->second.get())) {
            use.statement_ = kept->second.get();
        } else {
            auto made = connection.prepare(sql);
            if (!made) return std::move(made).error();
            use.statement_ = made->get();
            if (kept == connection.statements_.end() &&
                connection.statements_.size() < kMaxStatements) {
                connection.statements_.emplace(sql, std::move(*made));
            } else {
                use.own_ = std::move(*made);
            }
        }
        int index = 1;
        for (const Value& value : values)
            if (bind(use.statement_, index++, value) != SQLITE_OK) return connection.error(sql);
        return use;
    }
    Use(Use&& other) noexcept
        : connection_(other.connection_),
          statement_(std::exchange(other.statement_, nullptr)),
          own_(std::move(other.own_)) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
        if (!statement_) return;
        sqlite3_reset(statement_);
        sqlite3_clear_bindings(statement_);  // the bound texts were only lent
    }

    /// True: there is a row.
    Result<bool> step(std::string_view sql) {
        const int result = sqlite3_step(statement_);
        if (result == SQLITE_ROW) return true;
        if (result == SQLITE_DONE) return false;
        return connection_.error(sql);
    }
    Row row() { return Row(statement_); }

  private:
    explicit Use(SqliteConnection& connection) : connection_(connection) {}
    SqliteConnection& connection_;
    sqlite3_stmt* statement_ = nullptr;
    Prepared own_;
};

Result<std::unique_ptr<SqliteConnection>> SqliteConnection::open(const std::string& path) {
    // SQLite gives its -wal and -shm the mode of the file itself.
    shared::UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!file)
        return Error{ErrorCode::storage,
                     "cannot open the database " + path + ": " + std::strerror(errno),
                     {}};
    file.reset();
    sqlite3* handle = nullptr;
    const int result = sqlite3_open_v2(path.c_str(), &handle,
                                       SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
    std::unique_ptr<SqliteConnection> connection(new SqliteConnection(handle));
    if (result != SQLITE_OK) return connection->error("open " + path);
    sqlite3_extended_result_codes(handle, 1);
    return connection;
}

SqliteConnection::SqliteConnection(sqlite3* handle) : handle_(handle) {
    if (!handle_) throw std::bad_alloc();
    // In the place of SQLite's own automatic checkpoints, which would run within commits.
    sqlite3_wal_hook(
        handle_,
        [](void* self, sqlite3*, const char*, int pages) {
            static_cast<SqliteConnection*>(self)->wal_pages_ = pages;
            return SQLITE_OK;
        },
        this);
}

SqliteConnection::~SqliteConnection() {
    statements_.clear();
    sqlite3_close(handle_);
}

Result<SqliteConnection::Prepared> SqliteConnection::prepare(std::string_view sql) {
    sqlite3_stmt* statement = nullptr;
    const int result = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()),
                                          SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    Prepared prepared(statement);
    if (result != SQLITE_OK) return error(sql);
    return prepared;
}

Error SqliteConnection::error(std::string_view what) const {
    const int extended = sqlite3_extended_errcode(handle_);
    // The statement's first words tell which it was; bound values never stand in it.
    return {code_of(extended & 0xff, extended),
            "the daemon's database: " + std::string(sqlite3_errmsg(handle_)) + " (" +
                std::string(what.substr(0, 60)) + ")",
            {}};
}

Result<std::int64_t> SqliteConnection::run(std::string_view sql, const Values& values) {
    auto use = Use::begin(*this, sql, values);
    if (!use) return std::move(use).error();
    while (true) {
        auto row = use->step(sql);
        if (!row) return std::move(row).error();
        if (!*row) return sqlite3_changes64(handle_);
    }
}

Result<void> SqliteConnection::query(std::string_view sql, const Values& values,
                                     const std::function<void(const Row&)>& each) {
    auto use = Use::begin(*this, sql, values);
    if (!use) return std::move(use).error();
    while (true) {
        auto row = use->step(sql);
        if (!row) return std::move(row).error();
        if (!*row) return {};
        each(use->row());
    }
}

Result<void> SqliteConnection::script(const std::string& sql) {
    if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
        return error(sql);
    return {};
}

void SqliteConnection::set_busy_timeout(shared::Milliseconds timeout) {
    sqlite3_busy_timeout(handle_, static_cast<int>(timeout.count()));
}

bool SqliteConnection::in_transaction() const {
    return sqlite3_get_autocommit(handle_) == 0;
}

void SqliteConnection::checkpoint(bool truncate) {
    int pages = 0;
    const int mode = truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
    if (sqlite3_wal_checkpoint_v2(handle_, nullptr, mode, &pages, nullptr) == SQLITE_OK && truncate)
        wal_pages_ = 0;
}

void SqliteConnection::leave_log_at_close() {
    sqlite3_db_config(handle_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

}  // namespace store
