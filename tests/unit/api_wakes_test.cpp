// What a model is told of ends, and the table that tells each once.
#include <algorithm>
#include <catch2/catch.hpp>

#include "api/sessions/wakes.h"
#include "api/store/database.h"
#include "api/store/schema.h"
#include "api/store/sessions_table.h"
#include "tests/support/temporary_folder.h"

using nlohmann::json;
using sessions::wake_key;
using sessions::wake_line;

namespace {
const json kJob = {{"job", 3},        {"state", "ended"}, {"command", "make all"},
                   {"end", "exit 2"}, {"ms", 1250},       {"started_at", 77}};
}

TEST_CASE("a job's line names its end, its time, its command and how to read it") {
    CHECK(wake_line(kJob) ==
          "job 3 ended: exit 2, after 1.2 s: make all\n  read it: run.job(3).tail()");
}

TEST_CASE("a job's line is one line of bounded length whatever the host says") {
    json job = kJob;
    job["command"] = "sh\n" + std::string(1000, 'x');
    std::string line = wake_line(job);
    CHECK(line.find("sh " + std::string(197, 'x') + "...") != std::string::npos);
    CHECK(std::count(line.begin(), line.end(), '\n') == 1);
    job["command"] = std::string(1000, '\n');
    job["end"] = std::string(10000, 'e');
    CHECK(wake_line(job).size() < 1000);
    std::string wide;
    for (int i = 0; i < 300; ++i) wide += "\u00e9";
    job["command"] = wide;
    CHECK(json(wake_line(job)).dump().size() > 0);  // throws when a character was torn
    job = {{"job", "3"}, {"command", 5}, {"end", json::array()}};
    CHECK(wake_line(job).find("job 0 ended: ") == 0);
}

TEST_CASE("keys of kept jobs are their own, whatever kernel tells of them") {
    json kept = kJob;
    kept["kept"] = true;
    CHECK(wake_key("run1", kJob) != wake_key("run2", kJob));
    CHECK(wake_key("run1", kept) == wake_key("run2", kept));
    json later = kept;
    later["started_at"] = 78;
    CHECK(wake_key("run1", kept) != wake_key("run1", later));
}

TEST_CASE("a wake is told once, and not at all when it was read before") {
    TemporaryFolder folder;
    auto opened = store::Database::open(
        {.path = (folder.path() / "test.db").string(), .migrations = store::schema()});
    REQUIRE(opened.ok());
    store::SessionRow session;
    session.id = shared::SessionId::make();
    const auto in_store = [&](auto work) {
        auto done = (*opened)->call<bool>(
            [&](store::Connection& connection) -> shared::Result<bool> {
                work(connection);
                return true;
            },
            shared::Monotonic::now() + std::chrono::seconds(30));
        REQUIRE(done.ok());
    };
    const auto keys = [&](store::Connection& connection) {
        std::string all;
        const auto owed = store::owed_wakes(connection, session.id, 9);
        REQUIRE(owed.ok());
        for (const auto& row : *owed) all += row.key;
        return all;
    };
    in_store([&](store::Connection& connection) {
        REQUIRE(store::insert_session(connection, session).ok());
        for (const char* key : {"a", "b", "a", "c"})
            REQUIRE(store::insert_wake(connection, {0, session.id, key, "text", 1}).ok());
        REQUIRE(store::retire_wake(connection, session.id, "b").ok());
        CHECK(keys(connection) == "ac");
        CHECK(store::sessions_owed_wakes(connection)->size() == 1);
        const auto owed = store::owed_wakes(connection, session.id, 9);
        REQUIRE(store::wakes_told(connection, session.id, owed->back().id, 5).ok());
        CHECK(keys(connection).empty());
        CHECK(store::sessions_owed_wakes(connection)->empty());
        REQUIRE(store::insert_wake(connection, {0, session.id, "a", "text", 6}).ok());
        REQUIRE(store::retire_wake(connection, session.id, "c").ok());
        REQUIRE(store::insert_wake(connection, {0, session.id, "c", "text", 6}).ok());
        CHECK(keys(connection).empty());
        for (int i = 0; i < 2 * store::kWakesOwed; ++i)
            REQUIRE(store::insert_wake(
                        connection, {0, session.id, "key " + std::to_string(i), "text", 7})
                        .ok());
        CHECK(store::owed_wakes(connection, session.id, 1000)->size() ==
              static_cast<std::size_t>(store::kWakesOwed));
        REQUIRE(store::delete_session(connection, session.id).ok());
        CHECK(keys(connection).empty());
    });
}
