#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "shared/log.h"
#include "tests/support/temporary_folder.h"

using namespace shared;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> lines_of(const fs::path& file) {
    std::vector<std::string> lines;
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

/// A log in a folder of its own; afterwards lines go to standard error again.
struct LogFile {
    explicit LogFile(bool json = false, LogLevel level = LogLevel::info) {
        open_log({file, "test", level, json});
    }
    ~LogFile() { open_log({}); }
    TemporaryFolder folder;
    fs::path file = folder.path() / "daemon.log";
};

}  // namespace

TEST_CASE("a line holds time, level, process, event and fields, on one line whatever they are") {
    const LogFile log;
    log_info("started", {{"host", "box"}, {"words", "a\nb\x1b[31m \"q\" \\"}});
    const auto lines = lines_of(log.file);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find("info [test] started host=\"box\"") != std::string::npos);
    CHECK(lines[0].find("a\\x0ab\\x1b[31m \\\"q\\\" \\\\") != std::string::npos);
    struct stat found {};
    REQUIRE(::stat(log.file.c_str(), &found) == 0);
    CHECK((found.st_mode & 0777) == 0600);
}

TEST_CASE("lines are JSON objects when asked for") {
    const LogFile log(true);
    log_error("broke", {{"why", "\"\\\n\x01"}});
    const auto lines = lines_of(log.file);
    REQUIRE(lines.size() == 1);
    const auto line = nlohmann::json::parse(lines[0]);
    CHECK(line.at("event") == "broke");
    CHECK(line.at("level") == "error");
    CHECK(line.at("process") == "test");
    CHECK(line.at("why") == "\"\\\n\x01");
}

TEST_CASE("below its level nothing is written, and a long field is cut") {
    const LogFile log(false, LogLevel::warning);
    log_info("quiet");
    CHECK(lines_of(log.file).empty());
    log_warning("long", {{"text", std::string(1'000'000, '\n')}});
    const auto lines = lines_of(log.file);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].size() < 20'000);
}

TEST_CASE("the same text is written a few times a minute, other texts go on") {
    const LogFile log;
    for (int i = 0; i < 100; ++i) log_info("again", {{"host", "box"}});
    CHECK(lines_of(log.file).size() == kLogRepeatsPerMinute);
    log_info("again", {{"host", "other"}});
    CHECK(lines_of(log.file).size() == kLogRepeatsPerMinute + 1);
}

TEST_CASE("the file is rotated once it is full, and nothing is lost by it") {
    const LogFile log;
    { std::ofstream(log.file) << std::string(kLogRotateBytes - 100, 'x') << '\n'; }
    for (int i = 0; i < 20; ++i) log_info("line", {{"n", std::to_string(i)}});
    const fs::path older = log.file.string() + ".1";
    REQUIRE(fs::exists(older));
    CHECK(fs::file_size(older) < kLogRotateBytes + 4096);
    CHECK(lines_of(log.file).size() + lines_of(older).size() == 21);
}

TEST_CASE("lines of several processes do not mix and none is lost over a rotation") {
    const LogFile log;
    { std::ofstream(log.file) << std::string(kLogRotateBytes - 5000, 'x') << '\n'; }
    constexpr int kProcesses = 4, kLines = 100;
    std::vector<pid_t> children;
    for (int child = 0; child < kProcesses; ++child) {
        const pid_t pid = ::fork();
        REQUIRE(pid >= 0);
        if (pid == 0) {
            for (int i = 0; i < kLines; ++i) {
                log_info("line", {{"n", std::to_string(child) + "." + std::to_string(i)}});
            }
            ::_exit(0);
        }
        children.push_back(pid);
    }
    for (const pid_t pid : children) ::waitpid(pid, nullptr, 0);
    std::size_t whole = 0;
    for (const fs::path& file : {log.file, fs::path(log.file.string() + ".1")}) {
        for (const std::string& line : lines_of(file)) {
            if (line[0] == 'x') continue;
            REQUIRE(line.find("[test] line n=\"") != line.npos);
            REQUIRE(line.back() == '"');
            ++whole;
        }
    }
    CHECK(whole == kProcesses * kLines);
}

TEST_CASE("a file that cannot be written costs lines, which are counted, and never a wait") {
    const TemporaryFolder folder;
    const fs::path file = folder.path() / "daemon.log";
    SECTION("a folder stands in its place") {
        fs::create_directory(file);
    }
    SECTION("a FIFO without a reader stands in its place") {
        REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
    }
    SECTION("the disk is full") {
        fs::create_symlink("/dev/full", file);
    }
    open_log({file, "test", LogLevel::info, false});
    for (int i = 0; i < 3; ++i) log_info("lost", {{"n", std::to_string(i)}});
    fs::remove_all(file);
    open_log({file, "test", LogLevel::info, false});  // as after the pause between two attempts
    log_info("found");
    const auto lines = lines_of(file);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find("lines_lost=\"3\"") != std::string::npos);
    open_log({});
}

TEST_CASE("a file taken away or replaced while open is made anew") {
    const LogFile log;
    log_info("first");
    fs::rename(log.file, log.folder.path() / "moved");
    log_info("second");
    REQUIRE(lines_of(log.file).size() == 1);
    fs::remove(log.file);
    fs::create_directory(log.file);
    log_info("third");
    CHECK(lines_of(log.folder.path() / "moved").size() == 1);
}

TEST_CASE("threads may log at once") {
    const LogFile log;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([t] {
            for (int i = 0; i < 50; ++i) {
                log_info("line", {{"n", std::to_string(t) + "." + std::to_string(i)}});
            }
        });
    }
    for (auto& thread : threads) thread.join();
    CHECK(lines_of(log.file).size() == 200);
}
