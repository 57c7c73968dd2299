// The agent over real OpenSSH: control connections, login shells, the ways of a real host to fail.
#include <signal.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "shared/clock.h"
#include "tests/support/agent_driver.h"
#include "tests/support/driven_kernel.h"
#include "tests/support/private_sshd.h"
#include "tests/support/temporary_folder.h"

namespace fs = std::filesystem;
using nlohmann::json;
using shared::CloseReason;
using shared::HostState;
using support::AgentDriver;
using support::DrivenKernel;
using support::PrivateSshd;

namespace {

constexpr const char* kStat = R"({"op":"stat","path":"/"})";

fs::path albedo_home(const TemporaryFolder& folder) {
    const fs::path home = folder.path() / "albedo";
    fs::create_directories(home);
    return home;
}

void end(AgentDriver& driver, const DrivenKernel& kernel) {
    CHECK(driver.end_kernel(kernel.run).ok);
}

}  // namespace

TEST_CASE("one sign-in serves bridge, commands and the next agent; the daemon's end ends it") {
    TemporaryFolder folder;
    const PrivateSshd server(folder.path());
    const support::AgentPlace place{albedo_home(folder), "box", server.environment()};
    std::optional<AgentDriver> driver(std::in_place, place);
    DrivenKernel kernel(*driver, server.home());
    kernel.start(1);
    REQUIRE(kernel.opened());
    CHECK(kernel.value_of("import os; os.getcwd()") == "'" + server.home().native() + "'");
    for (int i = 0; i < 3; ++i) CHECK(driver->browse(kStat, true).ok);
    CHECK(server.sign_ins() == 1);
    const auto known = driver->report();
    CHECK_THAT(known.control_path, Catch::EndsWith("runtime/albedo/%C"));

    driver->kill();
    driver.emplace(place, known);
    kernel.driver = &*driver;
    kernel.open(1);
    REQUIRE(kernel.opened());
    CHECK(server.sign_ins() == 1);
    end(*driver, kernel);
    CHECK(PrivateSshd::master_pid(server.control_socket()) != 0);
    CHECK(driver->drain());
    // The master was asked to end; that it has is its own matter and takes it a moment.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (PrivateSshd::master_pid(server.control_socket()) != 0 &&
           std::chrono::steady_clock::now() < deadline)
        std::this_thread::yield();
    CHECK(PrivateSshd::master_pid(server.control_socket()) == 0);
}

TEST_CASE("every login shell, whatever its start-up files print") {
    const auto shell = GENERATE(as<std::string>{}, "bash", "zsh", "fish", "tcsh", "dash");
    if (!fs::exists("/bin/" + shell)) {
        WARN(shell << " is not installed");
        return;
    }
    TemporaryFolder folder;
    const PrivateSshd server(folder.path());
    fs::create_directories(server.home() / ".config/fish");
    for (const char* name :
         {".bashrc", ".profile", ".zshenv", ".tcshrc", ".config/fish/config.fish"})
        std::ofstream(server.home() / name) << "echo a greeting of " << name << "\n";
    AgentDriver driver({albedo_home(folder), shell, server.environment()});
    const fs::path odd = server.home() / "it's a $HOME \\\\ !1";
    fs::create_directories(odd);
    DrivenKernel kernel(driver, odd);
    kernel.start(1);
    REQUIRE(kernel.opened());
    CHECK(kernel.value_of("import os; len(os.getcwd())") == std::to_string(odd.native().size()));
    const auto answer = driver.browse(json{{"op", "stat"}, {"path", odd.native()}}.dump(), true);
    REQUIRE(answer.ok);
    CHECK(json::parse(answer.json).at("kind") == "folder");
    end(driver, kernel);
    CHECK(driver.drain());
}

TEST_CASE("a control connection that is stopped is gone around, named, and left alone") {
    TemporaryFolder folder;
    const PrivateSshd server(folder.path());
    AgentDriver driver({albedo_home(folder), "box", server.environment()});
    DrivenKernel kernel(driver, server.home());
    kernel.start(1);
    REQUIRE(kernel.opened());
    const pid_t master = PrivateSshd::master_pid(server.control_socket());
    REQUIRE(master != 0);
    ::kill(master, SIGSTOP);
    const auto begun = shared::Monotonic::now();
    CHECK(driver.browse(kStat, true).ok);
    CHECK(shared::Monotonic::now() - begun < std::chrono::seconds(15));
    CHECK(server.sign_ins() == 2);
    const auto probed = driver.probe(true);
    CHECK(probed.report.state == HostState::ready);
    CHECK_THAT(probed.report.detail, Catch::Contains("control connection"));
    ::kill(master, SIGCONT);
    CHECK(::kill(master, 0) == 0);
    CHECK(kernel.value_of("1 + 1") == "2");
    end(driver, kernel);
    CHECK(driver.hang_up());
}

TEST_CASE("the user's own control path is used, and their master left alone") {
    TemporaryFolder folder;
    fs::create_directories(folder.path() / "cm");
    const PrivateSshd server(
        folder.path(), "Host *\n    ControlMaster auto\n    ControlPersist yes\n    ControlPath " +
                           (folder.path() / "cm/%C").native());
    AgentDriver driver({albedo_home(folder), "box", server.environment()});
    DrivenKernel kernel(driver, server.home());
    kernel.start(1);
    REQUIRE(kernel.opened());
    CHECK_THAT(server.control_socket(), Catch::Contains("/cm/"));
    CHECK(server.sign_ins() == 1);
    end(driver, kernel);
    CHECK(driver.drain());
    CHECK(PrivateSshd::master_pid(server.control_socket()) != 0);
}

TEST_CASE("a host entry made for a terminal, and few sessions to a connection") {
    TemporaryFolder folder;
    const PrivateSshd server(
        folder.path(),
        "Host *\n    RemoteCommand bash -l\n    RequestTTY force\n    ForwardX11 yes",
        "MaxSessions 1");
    AgentDriver driver({albedo_home(folder), "box", server.environment()});
    DrivenKernel kernel(driver, server.home());
    kernel.start(1);
    REQUIRE(kernel.opened());
    CHECK(kernel.value_of("bytes(range(256)) == bytes(range(256))") == "True");
    CHECK(driver.browse(kStat, true).ok);  // the bridge holds the only session
    end(driver, kernel);
    CHECK(driver.drain());
}

TEST_CASE("a host whose key changed wants a person, and heals when it is back") {
    TemporaryFolder folder;
    const PrivateSshd server(folder.path());
    const fs::path known = folder.path() / "known_hosts";
    fs::rename(known, folder.path() / "right");
    std::ofstream(known)
        << "private ssh-ed25519 "
           "AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n";
    AgentDriver driver({albedo_home(folder), "box", server.environment()});
    const auto refused = driver.probe(true);
    CHECK(refused.report.state == HostState::needs_auth);
    CHECK_THAT(refused.report.detail,
               Catch::StartsWith("host key changed") && Catch::Contains("known_hosts:1"));
    fs::rename(folder.path() / "right", known);
    CHECK(driver.probe(true).report.state == HostState::ready);
    CHECK(driver.drain());
}

TEST_CASE("a home with letters that no command line can hold") {
    TemporaryFolder folder;
    const PrivateSshd server(folder.path());
    const fs::path home = server.home() / "j\xc3\xb6rg's";
    fs::create_directories(home);
    // The server's SetEnv cannot say it: the account's start-up file does.
    std::ofstream(server.home() / ".bashrc")
        << "export HOME=" << server.home().native() << "/j\xc3\xb6rg\\'s\n";
    AgentDriver driver({albedo_home(folder), "bash", server.environment()});
    DrivenKernel kernel(driver, home);
    kernel.start(1);
    REQUIRE(kernel.opened());
    CHECK(driver.report().home == home);
    CHECK(kernel.value_of("6 * 7") == "42");
    end(driver, kernel);
    CHECK(driver.drain());
}
