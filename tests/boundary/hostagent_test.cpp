// The agent's process at its two borders, with the real bundle behind it: on this machine, and
// behind a fake ssh.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "shared/clock.h"
#include "shared/frame_codec.h"
#include "tests/support/agent_driver.h"
#include "tests/support/driven_kernel.h"
#include "tests/support/fake_ssh.h"
#include "tests/support/temporary_folder.h"

namespace fs = std::filesystem;
using nlohmann::json;
using shared::CloseReason;
using shared::FrameKind;
using shared::FromAgent;
using shared::HostState;
using support::AgentDriver;
using support::FakeSsh;
using Kernel = support::DrivenKernel;

namespace {

std::vector<std::string> local_environment(const fs::path& home) {
    return {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + home.native()};
}

json ping(AgentDriver& driver) {
    return json::parse(driver.ping().json);
}

/// A zombie is gone: who reaps it is not the agent's matter.
bool lives(pid_t pid) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(stat, text);
    const auto name_end = text.rfind(')');
    return name_end != std::string::npos && text.compare(name_end + 2, 1, "Z") != 0;
}

bool gone_within(pid_t pid, int milliseconds) {
    for (const auto deadline = shared::Monotonic::now() + std::chrono::milliseconds(milliseconds);
         shared::Monotonic::now() < deadline; ::usleep(2000))
        if (!lives(pid)) return true;
    return false;
}

bool has_step(const AgentDriver& driver, const std::string& step) {
    for (const auto& seen : driver.reported())
        if (seen.substr(seen.find('/') + 1) == step) return true;
    return false;
}

/// Ends the kernel and with it everything of the test's on this machine.
void end(AgentDriver& driver, const Kernel& kernel) {
    const auto answer = driver.end_kernel(kernel.run);
    CHECK(answer.ok);
    CHECK_FALSE(fs::exists(kernel.run));
}

}  // namespace

TEST_CASE("a kernel on this machine starts, works, and outlives bridge, agent and channel") {
    TemporaryFolder folder;
    const fs::path home = folder.path() / "albedo";
    fs::create_directories(home);
    const support::AgentPlace place{home, "local", local_environment(folder.path())};
    std::optional<AgentDriver> driver(std::in_place, place);

    Kernel kernel(*driver, folder.path());
    kernel.start(1);
    REQUIRE(kernel.opened());
    CHECK(has_step(*driver, "staging"));
    CHECK(driver->report().state == HostState::ready);
    CHECK(driver->report().step == shared::HostStep::none);
    CHECK(fs::path(kernel.run).parent_path() == home / "run");
    CHECK(kernel.value_of("x = 41\nx + 1") == "42");
    const std::string pid = kernel.value_of("import os; os.getpid()");

    SECTION("the bridge is killed") {
        const pid_t bridge = ping(*driver)["bridge_pid"];
        ::kill(bridge, SIGKILL);
        const auto closed = kernel.closed();
        REQUIRE(closed);
        CHECK(closed->reason == CloseReason::dropped);
        kernel.open(2);
        REQUIRE(kernel.opened());
        CHECK(kernel.value_of("(x, os.getpid())") == "(41, " + pid + ")");
    }
    SECTION("the agent is killed") {
        const pid_t bridge = ping(*driver)["bridge_pid"];
        const auto known = driver->report();
        driver->kill();
        CHECK(gone_within(bridge, 2000));
        driver.emplace(place, known);
        kernel.driver = &*driver;
        kernel.open(1);
        REQUIRE(kernel.opened());
        CHECK_FALSE(has_step(*driver, "probing"));  // the fast path asks nothing before
        CHECK_FALSE(has_step(*driver, "connecting"));
        CHECK(kernel.value_of("(x, os.getpid())") == "(41, " + pid + ")");
    }
    SECTION("the api comes back with a new channel") {
        const pid_t bridge = ping(*driver)["bridge_pid"];
        kernel.execute("import time; time.sleep(0.3); 'slept'");
        driver->new_generation();
        driver->send(shared::Configure{});
        CHECK(ping(*driver)["bridge_pid"] == bridge);
        CHECK(ping(*driver)["kernels"] == 0);
        kernel.open(1);
        REQUIRE(kernel.opened());
        const auto done = kernel.frame(FrameKind::control, "done");
        REQUIRE(done);
        CHECK(done->at("value") == "'slept'");
    }
    SECTION("questions ride the bridge, or go alone") {
        const std::string question = json{{"op", "stat"}, {"path", folder.path()}}.dump();
        for (const bool fresh : {false, true}) {
            const auto answer = driver->browse(question, fresh);
            REQUIRE(answer.ok);
            CHECK(json::parse(answer.json).at("kind") == "folder");
        }
        const auto absent = driver->browse(R"({"op":"stat","path":"/nowhere/at/all"})", true);
        REQUIRE(absent.ok);
        CHECK(json::parse(absent.json).at("kind") == "absent");
    }
    SECTION("a kernel that is not there is gone, a folder that is not there no place to start") {
        Kernel lost(*driver, folder.path());
        lost.run = home / "run" / "never-was";
        lost.open(7);
        const auto closed = lost.closed();
        REQUIRE(closed);
        CHECK(closed->reason == CloseReason::gone);
        Kernel astray(*driver, "/nowhere/at/all");
        astray.start(8);
        const auto refused = astray.closed();
        REQUIRE(refused);
        CHECK(refused->reason == CloseReason::no_folder);
        const auto nothing = driver->end_kernel(home / "run" / "never-was");
        CHECK_FALSE(nothing.ok);
        CHECK(nothing.code == shared::ErrorCode::gone);
    }
    SECTION("the bundle is lost: staged anew") {
        ::kill(ping(*driver)["bridge_pid"].get<pid_t>(), SIGKILL);
        REQUIRE(kernel.closed());
        fs::remove_all(home / "bundle");
        kernel.open(2);
        REQUIRE(kernel.opened());
        CHECK(kernel.value_of("x") == "41");
    }
    end(*driver, kernel);
    const pid_t bridge = ping(*driver)["bridge_pid"];
    CHECK(driver->hang_up());
    CHECK(gone_within(bridge, 2000));
}

TEST_CASE("a host behind ssh: first visit, reattach, end") {
    TemporaryFolder folder;
    const FakeSsh world(folder.path());
    const fs::path home = folder.path() / "albedo";
    fs::create_directories(home);
    world.touch("slow");
    const support::AgentPlace place{home, "box", world.environment()};
    std::optional<AgentDriver> driver(std::in_place, place);

    Kernel kernel(*driver, world.home());
    kernel.start(1);
    REQUIRE(kernel.opened());
    CHECK(has_step(*driver, "staging"));
    CHECK(driver->report().home == world.home());
    CHECK(driver->report().control_path == (folder.path() / "runtime/albedo/%C").native());
    CHECK(fs::path(kernel.run).parent_path() == world.home() / ".albedo-remote/run");
    CHECK(world.count(".part.") == 1);
    CHECK(kernel.value_of("import os; (os.getcwd(), os.environ['HOME'])") ==
          "('" + world.home().native() + "', '" + world.home().native() + "')");

    const auto known = driver->report();
    driver->kill();
    driver.emplace(place, known);
    kernel.driver = &*driver;
    kernel.open(1);
    REQUIRE(kernel.opened());
    CHECK(world.count(".part.") == 1);
    CHECK(world.count("albedo_bridge.py") == 2);
    CHECK(kernel.value_of("1 + 1") == "2");
    CHECK(world.count("albedo_signal.py") == 0);
    end(*driver, kernel);
    CHECK(world.count("albedo_signal.py") == 1);
    CHECK(driver->hang_up());
}

TEST_CASE("hosts that cannot serve say why") {
    TemporaryFolder folder;
    const FakeSsh world(folder.path());
    const fs::path home = folder.path() / "albedo";
    fs::create_directories(home);
    struct Row {
        const char* host;
        HostState state;
        CloseReason reason;
        const char* words;
    };
    const auto row = GENERATE(
        Row{"shut", HostState::unreachable, CloseReason::unreachable, "Connection refused"},
        Row{"locked", HostState::needs_auth, CloseReason::needs_auth, "Permission denied"},
        Row{"old", HostState::unsupported, CloseReason::unsupported, "python >= 3.11"});
    AgentDriver driver({home, row.host, world.environment()});
    Kernel kernel(driver, world.home());
    kernel.start(1);
    const auto closed = kernel.closed();
    REQUIRE(closed);
    CHECK(closed->reason == row.reason);
    CHECK_THAT(closed->detail, Catch::Contains(row.words));
    const auto answer = driver.probe(false);
    REQUIRE(answer.ok);
    CHECK(answer.report.state == row.state);
    CHECK_THAT(answer.report.detail, Catch::Contains(row.words));
    CHECK_THAT(answer.report.control_path, Catch::EndsWith("/%C"));
    const auto browsed = driver.browse(R"({"op":"stat","path":"/"})", true);
    if (row.state != HostState::unsupported) {
        CHECK_FALSE(browsed.ok);
        CHECK(browsed.report.state == row.state);
    }
    CHECK(driver.hang_up());
}

TEST_CASE("a locked host is left alone until a person does something") {
    TemporaryFolder folder;
    const FakeSsh world(folder.path());
    const fs::path home = folder.path() / "albedo";
    fs::create_directories(home);
    AgentDriver driver({home, "locked", world.environment()});
    Kernel kernel(driver, world.home());
    kernel.start(1);
    REQUIRE(kernel.closed());
    const auto calls = world.count("locked");
    for (std::uint32_t number = 2; number < 6; ++number) {
        kernel.start(number);
        const auto closed = kernel.closed();
        REQUIRE(closed);
        CHECK(closed->reason == CloseReason::needs_auth);
    }
    CHECK(world.count("locked") == calls);
    world.touch("unlocked");
    CHECK(driver.probe(true).report.state == HostState::ready);
    kernel.start(9);
    REQUIRE(kernel.opened());
    end(driver, kernel);
    CHECK(driver.hang_up());
}

TEST_CASE("a host that goes down and comes back") {
    TemporaryFolder folder;
    const FakeSsh world(folder.path());
    const fs::path home = folder.path() / "albedo";
    fs::create_directories(home);
    AgentDriver driver({home, "down", world.environment()});
    Kernel kernel(driver, world.home());
    kernel.start(1);
    REQUIRE(kernel.opened());
    world.touch("down");
    // The open bridge does not count for "is it there now".
    CHECK_FALSE(driver.browse(R"({"op":"stat","path":"/"})", true).ok);
    ::kill(ping(driver)["bridge_pid"].get<pid_t>(), SIGKILL);
    REQUIRE(kernel.closed());
    kernel.open(2);
    auto closed = kernel.closed();
    REQUIRE(closed);
    CHECK(closed->reason == CloseReason::unreachable);
    CHECK_THAT(closed->detail, Catch::Contains("timed out"));
    world.remove("down");
    // A failure that was just seen does not stand in the way.
    kernel.open(3);
    REQUIRE(kernel.opened());
    end(driver, kernel);
    CHECK(driver.drain());
}

TEST_CASE("a host whose start-up files print a megabyte") {
    TemporaryFolder folder;
    const FakeSsh world(folder.path());
    const fs::path home = folder.path() / "albedo";
    fs::create_directories(home);
    AgentDriver driver({home, "noisy", world.environment()});
    Kernel kernel(driver, world.home());
    kernel.start(1);
    REQUIRE(kernel.opened());
    CHECK(kernel.value_of("1 + 1") == "2");
    end(driver, kernel);
    CHECK(driver.hang_up());
}

TEST_CASE("a copy that is cut off leaves nothing, and the next one works") {
    TemporaryFolder folder;
    const FakeSsh world(folder.path());
    const fs::path home = folder.path() / "albedo";
    fs::create_directories(home);
    world.touch("cut");
    AgentDriver driver({home, "box", world.environment()});
    Kernel kernel(driver, world.home());
    kernel.start(1);
    REQUIRE(kernel.closed());
    CHECK_FALSE(fs::exists(world.home() / ".albedo-remote"));
    world.remove("cut");
    // What just failed is not tried again for a moment; a person's request does not wait.
    CHECK(driver.probe(true).report.state == HostState::ready);
    kernel.start(2);
    REQUIRE(kernel.opened());
    end(driver, kernel);
    CHECK(driver.hang_up());
}
