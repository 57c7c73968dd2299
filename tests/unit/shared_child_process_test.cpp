#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "shared/child_process.h"
#include "tests/support/temporary_folder.h"

using namespace shared;

namespace {

constexpr EndPlan kJustWait{.ask = Milliseconds(10'000)};

/// Runs `script` in /bin/sh to its end; what it printed.
std::string output_of(const std::string& script, SpawnOptions options = {}) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    options.argv = {"/bin/sh", "-c", script};
    options.descriptors.push_back({write_end.get(), 1});
    auto child = ChildProcess::spawn(options);
    REQUIRE(child);
    write_end.reset();
    std::string text;
    char piece[4096];
    for (ssize_t got; (got = ::read(read_end.get(), piece, sizeof piece)) > 0;) {
        text.append(piece, static_cast<std::size_t>(got));
    }
    CHECK(child->end(kJustWait).clean());
    return text;
}

ChildProcess start(std::vector<std::string> argv) {
    SpawnOptions options;
    options.argv = std::move(argv);
    auto child = ChildProcess::spawn(options);
    REQUIRE(child);
    return std::move(*child);
}

bool ended_within(const ChildProcess& child, int ms) {
    pollfd waited{child.pidfd(), POLLIN, 0};
    return ::poll(&waited, 1, ms) == 1;
}

bool exists(pid_t pid) {
    return ::kill(pid, 0) == 0;
}

}  // namespace

TEST_CASE("how a child ended is told, and stays told") {
    ChildProcess child = start({"sh", "-c", "exit 3"});
    REQUIRE(ended_within(child, 10'000));
    CHECK(child.try_reap()->text() == "exit 3");
    CHECK(child.try_reap()->code == 3);
    CHECK_FALSE(child.signal(SIGTERM));  // gone: nobody else gets it

    ChildProcess killed = start({"sleep", "100"});
    CHECK_FALSE(killed.try_reap());
    CHECK(killed.signal(SIGKILL));
    CHECK(killed.end(kJustWait).text() == "signal 9 (Killed)");
}

TEST_CASE("what cannot be started is an error with its words, and leaves nothing") {
    SpawnOptions options;
    const TemporaryFolder folder;
    SECTION("not on PATH") {
        options.argv = {"no-such-program-anywhere"};
    }
    SECTION("no such file") {
        options.argv = {(folder.path() / "absent").string()};
    }
    SECTION("not executable") {
        options.argv = {"/etc/passwd"};
    }
    SECTION("no such working folder") {
        options.argv = {"true"};
        options.working_folder = (folder.path() / "absent").string();
    }
    const auto child = ChildProcess::spawn(options);
    REQUIRE_FALSE(child);
    CHECK(child.error().code == ErrorCode::failed);
    CHECK(child.error().message.find(std::filesystem::path(options.argv[0]).filename().string()) !=
          std::string::npos);
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);
    CHECK(errno == ECHILD);
}

TEST_CASE("a child has the descriptors it was given, /dev/null, and no other") {
    // Lent at numbers that are each other's targets, and one that would leak without care.
    const UniqueFd leak(::fcntl(0, F_DUPFD, 100));
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const UniqueFd read_end(ends[0]), write_end(ends[1]);
    SpawnOptions options;
    options.descriptors = {{read_end.get(), write_end.get()}, {write_end.get(), read_end.get()}};
    // The folder's own descriptor is among what the glob finds, and gone afterwards.
    const std::string numbers = output_of(
        "for f in /proc/$$/fd/*; do if [ -L $f ]; then echo ${f##*/}; fi; done; "
        "readlink /proc/$$/fd/0 /proc/$$/fd/2",
        options);
    const int low = std::min(read_end.get(), write_end.get());
    const int high = std::max(read_end.get(), write_end.get());
    const std::string wanted =
        "0\n1\n2\n" + std::to_string(low) + "\n" + std::to_string(high) + "\n";
    CHECK(numbers == wanted + "/dev/null\n/dev/null\n");
}

TEST_CASE("descriptors may change places") {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const UniqueFd read_end(ends[0]), write_end(ends[1]);
    SpawnOptions options;
    options.descriptors = {{read_end.get(), write_end.get()}, {write_end.get(), read_end.get()}};
    output_of("echo hello >&" + std::to_string(read_end.get()), options);
    char word[6] = {};
    CHECK(::read(read_end.get(), word, 5) == 5);
    CHECK(std::string(word) == "hello");
}

TEST_CASE("a child starts with an empty mask and default dispositions") {
    struct sigaction before {
    }, ignore{};
    ignore.sa_handler = SIG_IGN;
    REQUIRE(::sigaction(SIGPIPE, &ignore, &before) == 0);
    sigset_t blocked, mask_before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    REQUIRE(::sigprocmask(SIG_BLOCK, &blocked, &mask_before) == 0);
    const std::string found = output_of("exec sed -n '/^Sig[BIC]/p' /proc/self/status");
    ::sigprocmask(SIG_SETMASK, &mask_before, nullptr);
    ::sigaction(SIGPIPE, &before, nullptr);
    CHECK(found ==
          "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n");
}

TEST_CASE("environment, working folder, group and session are as asked") {
    const TemporaryFolder folder;
    SpawnOptions options;
    options.environment = {"WORD=a b", "PATH=/usr/bin:/bin"};
    options.working_folder = folder.path().string();
    CHECK(output_of("echo \"$WORD,$HOME,$(pwd)\"", options) ==
          "a b,," + folder.path().string() + "\n");

    const char* fields =
        "read -r a b c d group session rest < /proc/$$/stat; "
        "echo $(( group == $$ )) $(( session == $$ ))";
    CHECK(output_of(fields) == "0 0\n");
    SpawnOptions grouped;
    grouped.own_process_group = true;
    CHECK(output_of(fields, grouped) == "1 0\n");
    SpawnOptions session;
    session.own_session = true;
    CHECK(output_of(fields, session) == "1 1\n");
}

TEST_CASE("a child dies with its parent if asked, even one killed") {
    for (const bool dies : {true, false}) {
        int ends[2];
        REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
        const UniqueFd read_end(ends[0]);
        UniqueFd write_end(ends[1]);
        const pid_t parent = ::fork();
        REQUIRE(parent >= 0);
        if (parent == 0) {
            SpawnOptions options;
            options.argv = {"sleep", "100"};
            options.dies_with_parent = dies;
            auto child = ChildProcess::spawn(options);
            const pid_t pid = child ? child->pid() : -1;
            (void)!::write(write_end.get(), &pid, sizeof pid);
            ::raise(SIGKILL);
        }
        pid_t pid = -1;
        REQUIRE(::read(read_end.get(), &pid, sizeof pid) == sizeof pid);
        REQUIRE(pid > 0);
        ::waitpid(parent, nullptr, 0);
        const TimePoint deadline = Monotonic::now() + Milliseconds(dies ? 10'000 : 200);
        while (exists(pid) && Monotonic::now() < deadline) {
            ::poll(nullptr, 0, 5);
            ::waitpid(pid, nullptr, WNOHANG);  // ours only where tests run below a subreaper
        }
        // Without an init that reaps, the dead child may stay as a zombie.
        const std::string state =
            output_of("cut -d' ' -f3 /proc/" + std::to_string(pid) + "/stat 2>/dev/null; true");
        CHECK((state.empty() || state[0] == 'Z') == dies);
        if (!dies) ::kill(pid, SIGKILL);
    }
}

TEST_CASE("an owner that goes takes its child along") {
    pid_t pid = -1;
    {
        const ChildProcess child = start({"sleep", "100"});
        pid = child.pid();
        REQUIRE(exists(pid));
    }
    CHECK_FALSE(exists(pid));
    {
        ChildProcess first = start({"sleep", "100"});
        pid = first.pid();
        first = start({"true"});
        CHECK_FALSE(exists(pid));
        CHECK(first.end(kJustWait).clean());
    }
}

TEST_CASE("a child given up lives on") {
    ChildProcess child = start({"sleep", "100"});
    const pid_t pid = child.detach();
    { const ChildProcess gone = std::move(child); }
    CHECK(exists(pid));
    ::kill(pid, SIGKILL);
    CHECK(::waitpid(pid, nullptr, 0) == pid);
}

TEST_CASE("a child that heeds SIGTERM ends by it; one that does not is killed") {
    ChildProcess polite = start({"sleep", "100"});
    CHECK(polite.end({.terminate = Milliseconds(10'000)}).code == SIGTERM);

    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    SpawnOptions options;
    options.argv = {"/bin/sh", "-c", "trap '' TERM; echo; while :; do sleep 0.05; done"};
    options.descriptors = {{write_end.get(), 1}};
    auto stubborn = ChildProcess::spawn(options);
    REQUIRE(stubborn);
    write_end.reset();
    char ready = 0;
    REQUIRE(::read(read_end.get(), &ready, 1) == 1);  // the trap is set
    CHECK(stubborn->end({.terminate = Milliseconds(100)}).code == SIGKILL);
}

TEST_CASE("the plan: ask, terminate, kill, give up, each at its time and once") {
    const TimePoint t0{};
    const auto at = [&](int ms) { return t0 + Milliseconds(ms); };
    EndSteps steps({.ask = Milliseconds(100),
                    .terminate = Milliseconds(200),
                    .kill = Milliseconds(50),
                    .terminate_signal = SIGINT},
                   t0);
    auto step = steps.at(at(0));
    CHECK_FALSE(step.signal);
    CHECK(step.next == at(100));
    step = steps.at(at(100));
    CHECK(step.signal == SIGINT);
    CHECK(step.next == at(300));
    step = steps.at(at(150));
    CHECK_FALSE(step.signal);
    step = steps.at(at(300));
    CHECK(step.signal == SIGKILL);
    CHECK(step.next == at(350));
    step = steps.at(at(340));
    CHECK_FALSE(step.signal);
    CHECK(step.next == at(350));
    step = steps.at(at(350));
    CHECK_FALSE(step.signal);
    CHECK_FALSE(step.next);

    SECTION("steps of zero are left out") {
        EndSteps at_once({.kill = Milliseconds(50)}, t0);
        CHECK(at_once.at(at(0)).signal == SIGKILL);
    }
    SECTION("a loop that comes late still kills before it gives up") {
        EndSteps late(
            {.ask = Milliseconds(1), .terminate = Milliseconds(1), .kill = Milliseconds(1)}, t0);
        step = late.at(at(10'000));
        CHECK(step.signal == SIGKILL);
        CHECK(step.next);
    }
}

TEST_CASE("programs of ours stand beside the running one") {
    const auto path = std::filesystem::path(sibling_program("albedo-api"));
    CHECK(path.filename() == "albedo-api");
    CHECK(path.parent_path() == std::filesystem::read_symlink("/proc/self/exe").parent_path());
}
