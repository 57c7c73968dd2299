#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "shared/home.h"
#include "tests/support/temporary_folder.h"

using namespace shared;
namespace fs = std::filesystem;

namespace {

unsigned mode(const fs::path& path) {
    struct stat found {};
    REQUIRE(::stat(path.c_str(), &found) == 0);
    return found.st_mode & 07777;
}

/// What `question` answers in a process of its own.
template <class Question>
bool in_child(Question question) {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) ::_exit(question() ? 1 : 0);
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status) == 1;
}

bool can_take(const fs::path& home) {
    auto lock = HomeLock::try_take(home);
    return lock && *lock;
}

}  // namespace

TEST_CASE("the home is made private, and made private again") {
    const TemporaryFolder folder;
    const fs::path home = folder.path() / "deep" / "home";
    REQUIRE(make_home(home));
    CHECK(mode(home) == 0700);
    REQUIRE(::chmod(home.c_str(), 0755) == 0);
    REQUIRE(make_home(home));
    CHECK(mode(home) == 0700);

    std::ofstream(folder.path() / "file") << "x";
    const auto refused = make_home(folder.path() / "file");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::storage);
    CHECK(refused.error().message.find("file") != std::string::npos);
    CHECK_FALSE(make_home(folder.path() / "file" / "below"));
}

TEST_CASE("one process holds the lock, others see it held without disturbing it") {
    const TemporaryFolder folder;
    const fs::path& home = folder.path();
    CHECK_FALSE(HomeLock::is_held(home));  // no lock file at all
    {
        auto lock = HomeLock::try_take(home);
        REQUIRE(lock);
        REQUIRE(*lock);
        CHECK(in_child([&] { return HomeLock::is_held(home); }));
        CHECK_FALSE(in_child([&] { return can_take(home); }));
        CHECK(in_child([&] { return HomeLock::is_held(home); }));  // looking took nothing away
    }
    CHECK_FALSE(HomeLock::is_held(home));
    CHECK(in_child([&] { return can_take(home); }));
    CHECK_FALSE(HomeLock::is_held(home));  // the child's ended with it
    CHECK(can_take(home));
}

TEST_CASE("a lock that cannot be made says where") {
    const TemporaryFolder folder;
    const auto lock = HomeLock::try_take(folder.path() / "absent");
    REQUIRE_FALSE(lock);
    CHECK(lock.error().code == ErrorCode::storage);
    CHECK(lock.error().message.find("daemon.lock") != std::string::npos);
}

TEST_CASE("the daemon's record reads back; what is broken is nothing") {
    const TemporaryFolder folder;
    CHECK_FALSE(read_daemon_record(folder.path()));
    REQUIRE(
        write_daemon_record(folder.path(), {4711, 65535, "secret", "0.1.0", 1'700'000'000'000}));
    const auto record = read_daemon_record(folder.path());
    REQUIRE(record);
    CHECK(record->pid == 4711);
    CHECK(record->port == 65535);
    CHECK(record->token == "secret");
    CHECK(record->version == "0.1.0");
    CHECK(record->started_wall_ms == 1'700'000'000'000);
    const fs::path file = HomeLayout(folder.path()).record_file();
    CHECK(mode(file) == 0600);
    for (const char* broken :
         {"", "{", "[]", "{}", "{\"pid\": \"x\", \"port\": 1, \"token\": \"t\"}",
          "{\"pid\": 1, \"port\": 1, \"token\": \"t\", \"version\": 3}"}) {
        INFO(broken);
        std::ofstream(file) << broken;
        CHECK_FALSE(read_daemon_record(folder.path()));
    }
}

TEST_CASE("a private file is replaced whole or left as it was, with nothing beside it") {
    const TemporaryFolder folder;
    const fs::path file = folder.path() / "f";
    REQUIRE(write_private_file(file, "old"));
    REQUIRE(write_private_file(file, std::string(100'000, 'n')));
    CHECK(fs::file_size(file) == 100'000);
    CHECK(mode(file) == 0600);
    const fs::path taken = folder.path() / "taken";
    fs::create_directory(taken);
    CHECK(write_private_file(taken, "x").error().code == ErrorCode::storage);
    CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("the home is $ALBEDO_HOME, else below the user's own") {
    const char* set = std::getenv("ALBEDO_HOME");
    const std::string before = set ? set : "";
    ::setenv("ALBEDO_HOME", "/some/where", 1);
    CHECK(default_home() == "/some/where");
    ::setenv("ALBEDO_HOME", "beside", 1);
    CHECK(default_home() == fs::current_path() / "beside");
    ::unsetenv("ALBEDO_HOME");
    CHECK(default_home().filename() == ".albedo");
    CHECK(default_home().is_absolute());
    if (set) ::setenv("ALBEDO_HOME", before.c_str(), 1);
}
