#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>

#include "api/store/database.h"
#include "shared/log.h"

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using shared::Error;
using shared::ErrorCode;
using shared::Monotonic;
using shared::Result;
using store::Connection;
using store::Database;
using store::Row;

namespace {

const std::string kTable = "CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT NOT NULL)";

class Folder {
  public:
    Folder() {
        std::string pattern = fs::temp_directory_path() / "albedo-store-XXXXXX";
        REQUIRE(::mkdtemp(pattern.data()));
        path = pattern;
    }
    ~Folder() { fs::remove_all(path); }
    std::string file() const { return (path / "albedo.db").string(); }
    fs::path path;
};

std::unique_ptr<Database> open(const Folder& folder, std::vector<std::string> scripts = {kTable}) {
    auto opened = Database::open({.path = folder.file(), .migrations = std::move(scripts)});
    REQUIRE(opened.ok());
    return std::move(*opened);
}

auto soon() {
    return Monotonic::now() + 20s;
}

Result<void> insert(Connection& connection, std::int64_t id, const std::string& text) {
    auto run = connection.run("INSERT INTO t VALUES (?, ?)", {id, text});
    if (!run) return run.error();
    return {};
}

Result<void> insert(Database& database, std::int64_t id, const std::string& text) {
    return database.call<void>([=](Connection& c) { return insert(c, id, text); }, soon());
}

Result<std::int64_t> count(Database& database) {
    return database.call<std::int64_t>(
        [](Connection& connection) -> Result<std::int64_t> {
            std::int64_t rows = -1;
            auto read = connection.query("SELECT count(*) FROM t", {},
                                         [&](const Row& row) { rows = row.integer(0); });
            if (!read) return read.error();
            return rows;
        },
        soon());
}

/// Another program with the same file.
class Other {
  public:
    explicit Other(const Folder& folder) {
        REQUIRE(sqlite3_open(folder.file().c_str(), &handle_) == SQLITE_OK);
    }
    ~Other() { sqlite3_close(handle_); }
    void run(const char* sql) {
        REQUIRE(sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) == SQLITE_OK);
    }

  private:
    sqlite3* handle_ = nullptr;
};

}  // namespace

TEST_CASE("values of every kind come back as they went in") {
    Folder folder;
    auto database = open(folder, {"CREATE TABLE v (a, b, c, d, e, f)"});
    const std::string bytes("x\0\xff", 3);
    auto done = database->call<void>(
        [&](Connection& connection) -> Result<void> {
            auto run =
                connection.run("INSERT INTO v VALUES (?, ?, ?, ?, ?, ?)",
                               {-5, 0.5, bytes, "", std::nullopt, std::optional<std::string>("y")});
            REQUIRE(run.ok());
            CHECK(*run == 1);
            return connection.query("SELECT * FROM v", {}, [&](const Row& row) {
                CHECK(row.integer(0) == -5);
                CHECK(row.real(1) == 0.5);
                CHECK(row.text(2) == bytes);
                CHECK(row.text(3).empty());
                CHECK_FALSE(row.is_null(3));
                CHECK_FALSE(row.optional_text(4).has_value());
                CHECK(row.optional_text(5) == "y");
            });
        },
        soon());
    CHECK(done.ok());
    struct stat status = {};
    REQUIRE(::stat(folder.file().c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("one failing among many is undone alone") {
    Folder folder;
    auto database = open(folder);
    // All are queued behind a closure that is held, so that they become one group.
    std::promise<void> go;
    auto held = go.get_future().share();
    database->post(
        [held](Connection&) {
            held.wait();
            return Result<void>();
        },
        nullptr);
    std::mutex mutex;
    std::condition_variable told;
    std::vector<std::pair<int, ErrorCode>> failures;
    int answers = 0;
    for (int i = 0; i < 30; ++i)
        database->post(
            [i](Connection& c) -> Result<void> {
                if (auto done = insert(c, i % 10 == 9 ? i - 1 : i, "x"); !done) return done;
                if (i == 5) return Error{ErrorCode::cancelled, "changed its mind", {}};
                if (i == 6) throw std::runtime_error("fault");
                return {};
            },
            [&, i](const Result<void>& result) {
                std::lock_guard lock(mutex);
                if (!result) failures.emplace_back(i, result.error().code);
                ++answers;
                told.notify_one();
            });
    go.set_value();
    std::unique_lock lock(mutex);
    REQUIRE(told.wait_for(lock, 20s, [&] { return answers == 30; }));
    CHECK(failures == std::vector<std::pair<int, ErrorCode>>{{5, ErrorCode::cancelled},
                                                             {6, ErrorCode::failed},
                                                             {9, ErrorCode::conflict},
                                                             {19, ErrorCode::conflict},
                                                             {29, ErrorCode::conflict}});
    lock.unlock();
    CHECK(*count(*database) == 25);
}

TEST_CASE("errors of constraints have their codes, and a query may run statements") {
    Folder folder;
    auto database = open(folder, {kTable, "CREATE TABLE child (t INTEGER REFERENCES t(id))"});
    CHECK(insert(*database, 1, "a").ok());
    CHECK(insert(*database, 1, "b").error().code == ErrorCode::conflict);
    const auto run = [&](const char* sql) {
        return database->call<std::int64_t>([sql](Connection& c) { return c.run(sql); }, soon());
    };
    CHECK(run("INSERT INTO t VALUES (2, NULL)").error().code == ErrorCode::invalid);
    CHECK(run("INSERT INTO child VALUES (77)").error().code == ErrorCode::invalid);
    CHECK(run("INSERT INTO nowhere VALUES (1)").error().code == ErrorCode::failed);
    CHECK(run("UPDATE t SET text = 'c'").value() == 1);
    auto nested = database->call<void>(
        [](Connection& c) -> Result<void> {
            const char* sql = "SELECT id FROM t";
            return c.query(sql, {}, [&](const Row& outer) {
                REQUIRE(c.query(sql, {}, [&](const Row& inner) {
                             CHECK(inner.integer(0) == outer.integer(0));
                         }).ok());
                CHECK(c.run("UPDATE t SET text = 'd'").ok());
            });
        },
        soon());
    CHECK(nested.ok());
}

TEST_CASE("versions: each script once, a newer file refused untouched") {
    Folder folder;
    {
        auto database = open(folder);
        CHECK(insert(*database, 1, "a").ok());
    }
    const std::vector<std::string> more{kTable, "ALTER TABLE t ADD COLUMN n INTEGER DEFAULT 7"};
    {
        auto database = open(folder, more);
        CHECK(*count(*database) == 1);
    }
    {
        auto database = open(folder, more);
        CHECK(*count(*database) == 1);
    }
    const auto written = fs::last_write_time(folder.file());
    auto refused = Database::open({.path = folder.file(), .migrations = {kTable}});
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::unsupported);
    CHECK(refused.error().message.find("version 2") != std::string::npos);
    CHECK(refused.error().message.find("up to 1") != std::string::npos);
    CHECK(fs::last_write_time(folder.file()) == written);
    // A script that fails leaves the version before it.
    auto broken = Database::open(
        {.path = folder.file(), .migrations = {kTable, more[1], "DROP TABLE t; nonsense"}});
    CHECK_FALSE(broken.ok());
    auto database = open(folder, more);
    CHECK(*count(*database) == 1);
}

TEST_CASE("no folder, a folder in its place, a file that is no database") {
    Folder folder;
    CHECK(Database::open({.path = folder.path / "no" / "db", .migrations = {}}).error().code ==
          ErrorCode::storage);
    CHECK(Database::open({.path = folder.path, .migrations = {}}).error().code ==
          ErrorCode::storage);
    { std::ofstream(folder.file()) << std::string(5000, 'x'); }
    CHECK(Database::open({.path = folder.file(), .migrations = {kTable}}).error().code ==
          ErrorCode::storage);
}

TEST_CASE("another program holds the database: callers give up in time, nothing is done later") {
    Folder folder;
    auto database = open(folder);
    Other other(folder);
    other.run("BEGIN EXCLUSIVE");
    std::atomic<int> posted = 0;
    database->post([](Connection& c) { return insert(c, 1, "posted"); },
                   [&](const Result<void>& result) { posted = result ? 1 : 2; });
    auto given_up = database->call<void>([](Connection& c) { return insert(c, 2, "called"); },
                                         Monotonic::now() + 300ms);
    CHECK(given_up.error().code == ErrorCode::unavailable);
    CHECK(posted == 0);
    other.run("COMMIT");
    CHECK(insert(*database, 3, "later").ok());
    CHECK(posted == 1);
    CHECK(*count(*database) == 2);
}

TEST_CASE("the write-ahead log stays bounded while nobody reads for ever") {
    Folder folder;
    auto database = open(folder);
    const std::string text(100'000, 'x');
    for (int i = 0; i < 300; ++i) REQUIRE(insert(*database, i, text).ok());
    CHECK(fs::file_size(folder.file() + "-wal") < 10'000'000);
}

TEST_CASE("what is posted for soon keeps its order, shares a transaction and needs no other") {
    Folder folder;
    auto database = open(folder);
    std::promise<void> alone;
    database->post_soon([](Connection& c) { return insert(c, 1, "soon"); },
                        [&](const Result<void>&) { alone.set_value(); });
    REQUIRE(alone.get_future().wait_for(20s) == std::future_status::ready);
    CHECK(*count(*database) == 1);

    sqlite3* outside = nullptr;
    REQUIRE(sqlite3_open(folder.file().c_str(), &outside) == SQLITE_OK);
    const auto committed = [&](std::int64_t id) {
        bool found = false;
        const auto sql = "SELECT 1 FROM t WHERE id = " + std::to_string(id);
        sqlite3_exec(
            outside, sql.c_str(),
            [](void* to, int, char**, char**) { return *static_cast<bool*>(to) = true, 0; }, &found,
            nullptr);
        return found;
    };
    bool shared_one = false;  // a machine that stands still between the two lines splits them
    for (std::int64_t id = 2; id < 200 && !shared_one; ++id) {
        database->post_soon([id](Connection& c) { return insert(c, id, "soon"); }, nullptr);
        auto seen = database->call<bool>(
            [&](Connection& c) -> Result<bool> {
                std::int64_t before = 0;
                auto read = c.query("SELECT count(*) FROM t WHERE id = ?", {id},
                                    [&](const Row& row) { before = row.integer(0); });
                if (!read) return read.error();
                if (before != 1) return Error{ErrorCode::failed, "out of order", {}};
                return !committed(id);
            },
            soon());
        REQUIRE(seen.ok());
        CHECK(committed(id));
        shared_one = *seen;
    }
    CHECK(shared_one);
    sqlite3_close(outside);
}

TEST_CASE("a destructor finishes what is queued") {
    Folder folder;
    std::atomic<int> done = 0;
    {
        auto database = open(folder);
        for (int i = 0; i < 500; ++i)
            database->post([i](Connection& c) { return insert(c, i, "x"); },
                           [&](const Result<void>& result) { done += result.ok(); });
    }
    CHECK(done == 500);
    CHECK(*count(*open(folder)) == 500);
}

TEST_CASE("no room on the disk: writes are refused, reads go on, room brings all back") {
    Folder folder;
    shared::open_log({.file = folder.path / "log", .process = "test"});
    auto database = open(folder);
    REQUIRE(insert(*database, 1, "kept").ok());
    struct rlimit before = {};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = ::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {100'000, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    int refused = 0;
    for (int i = 100; i < 130; ++i) {
        const auto result = insert(*database, i, std::string(200'000, 'x'));
        refused += !result && result.error().code == ErrorCode::storage;
        CHECK(*count(*database) == 1);
    }
    CHECK(refused == 30);
    // A reader beside a writer, in one group.
    std::promise<void> go;
    auto held = go.get_future().share();
    database->post(
        [held](Connection&) {
            held.wait();
            return Result<void>();
        },
        nullptr);
    std::atomic<int> writer = 0;
    database->post([](Connection& c) { return insert(c, 7, std::string(200'000, 'x')); },
                   [&](const Result<void>& result) { writer = result ? 1 : 2; });
    auto reader = std::async(std::launch::async, [&] { return count(*database); });
    go.set_value();
    CHECK(*reader.get() == 1);
    CHECK(writer == 2);
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, handler);
    CHECK(insert(*database, 2, std::string(200'000, 'x')).ok());
    CHECK(*count(*database) == 2);
    shared::open_log({.file = {}, .process = "test"});
    CHECK(fs::file_size(folder.path / "log") < 1'000);  // one line, not thirty
}

TEST_CASE("what was acknowledged outlives SIGKILL") {
    Folder folder;
    { auto made = open(folder); }
    int pipe_ends[2];
    REQUIRE(::pipe(pipe_ends) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        auto opened = Database::open({.path = folder.file(), .migrations = {kTable}});
        for (int i = 0;; ++i) {
            if (!(*opened)->call<void>([i](Connection& c) { return insert(c, i, "x"); },
                                       Monotonic::now() + 20s))
                ::_exit(1);
            if (::write(pipe_ends[1], "x", 1) != 1) ::_exit(1);
        }
    }
    ::close(pipe_ends[1]);
    char byte;
    for (int i = 0; i < 50; ++i) REQUIRE(::read(pipe_ends[0], &byte, 1) == 1);
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    std::int64_t acknowledged = 50;
    while (::read(pipe_ends[0], &byte, 1) == 1) ++acknowledged;
    ::close(pipe_ends[0]);
    auto database = open(folder);
    const auto rows = *count(*database);
    CHECK(rows >= acknowledged);
    CHECK(rows <= acknowledged + 1);
}
