// The api's end of a host: calls and their bulkhead, deadlines, generations, and an agent that
// breaks the rules. The agent's side of a real channel is played here.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <condition_variable>
#include <optional>
#include <thread>

#include "api/agents/hosts.h"
#include "shared/archive.h"

using namespace agents;
using namespace std::chrono_literals;
using shared::ErrorCode;
using shared::Monotonic;

namespace {
/// A supervisor's control socket, a running loop, and hosts on both.
struct World {
    World()
        : pair(shared::ControlSocket::make_pair()),
          supervisor_end(std::move(pair.first)),
          supervisor(loop, shared::UniqueFd(::dup(pair.second.fd()))),
          hosts(monitor, loop, supervisor,
                [this](const std::string&, const shared::HostReport& report) {
                    saved.push_back(report);
                }) {
        hosts.set_listener(&listener);
        thread = std::thread([this] { loop.run(); });
    }
    ~World() {
        loop.stop();
        thread.join();
    }
    struct Listener : HostListener {
        void channel_up(HostEnd&) override { ++ups; }
        void channel_down(HostEnd&) override { ++downs; }
        void host_reported(HostEnd&, shared::HostState) override {}
        int ups = 0, downs = 0;
    };

    /// Gives the api a channel of this generation; the agent's end of it.
    shared::ChannelEnd offer(std::uint64_t generation) {
        auto channel = shared::create_channel();
        std::vector<shared::UniqueFd> descriptors;
        descriptors.push_back(std::move(channel.api.memory));
        descriptors.push_back(std::move(channel.api.own_wake));
        descriptors.push_back(std::move(channel.api.peer_wake));
        auto shared_descriptors =
            std::make_shared<std::vector<shared::UniqueFd>>(std::move(descriptors));
        on_loop([&] { hosts.take_offer({"box", generation}, std::move(*shared_descriptors)); });
        auto agent =
            shared::ChannelEnd::attach(std::move(channel.agent), shared::ChannelSide::agent);
        REQUIRE(agent.ok());
        return std::move(*agent);
    }
    template <class Do>
    void on_loop(Do work) {
        std::mutex mutex;
        std::condition_variable done;
        bool ran = false;
        loop.post([&] {
            work();
            std::lock_guard lock(mutex);
            ran = true;
            done.notify_one();
        });
        std::unique_lock lock(mutex);
        REQUIRE(done.wait_for(lock, 10s, [&] { return ran; }));
    }
    int listened(int Listener::*what) {
        auto lock = monitor.lock();
        return listener.*what;
    }

    Monitor monitor;
    Loop loop;
    std::pair<shared::ControlSocket, shared::ControlSocket> pair;
    shared::ControlSocket supervisor_end;
    SupervisorLink supervisor;
    std::vector<shared::HostReport> saved;
    Listener listener;
    Hosts hosts;
    std::thread thread;
};

/// The agent's next message, within 10 s.
std::optional<shared::ToAgent> next(shared::ChannelEnd& agent) {
    const auto deadline = Monotonic::now() + 10s;
    while (Monotonic::now() < deadline) {
        auto bytes = agent.receive();
        REQUIRE(bytes.ok());
        if (*bytes) {
            auto message = shared::decode<shared::ToAgent>(**bytes);
            REQUIRE(message.ok());
            return std::move(*message);
        }
        std::this_thread::yield();
    }
    return std::nullopt;
}

void say(shared::ChannelEnd& agent, const shared::FromAgent& message) {
    REQUIRE(agent.send(shared::encode(message)).ok());
}

shared::Result<shared::Answer> ping(World& world, std::chrono::milliseconds within,
                                    WhenFull when_full = WhenFull::refuse) {
    return world.hosts.call("box", shared::Ping{}, Monotonic::now() + within, when_full);
}

bool wait_for(const std::function<bool()>& condition) {
    const auto deadline = Monotonic::now() + 10s;
    while (!condition()) {
        if (Monotonic::now() > deadline) return false;
        std::this_thread::yield();
    }
    return true;
}
}  // namespace

TEST_CASE("a host is asked for once, configured first, and a call waits for its channel") {
    World world;
    std::optional<shared::Result<shared::Answer>> answer;
    std::thread caller([&] { answer.emplace(ping(world, 10s)); });
    std::optional<shared::ControlMessage> wanted;
    REQUIRE(wait_for([&] {
        auto message = world.supervisor_end.receive();
        REQUIRE(message.ok());
        if (*message) wanted = std::move(**message);
        return wanted.has_value();
    }));
    auto want = shared::decode<shared::FromChild>(wanted->bytes);
    REQUIRE(want.ok());
    CHECK(std::get<shared::WantHost>(*want).host == "box");
    auto agent = world.offer(1);
    CHECK(std::holds_alternative<shared::Configure>(*next(agent)));
    const auto asked = std::get<shared::Ping>(*next(agent));
    CHECK(asked.deadline_ms > 0);
    shared::Answer said;
    said.call = asked.call;
    said.ok = true;
    said.json = "{}";
    say(agent, said);
    caller.join();
    REQUIRE(answer.has_value());
    REQUIRE(answer->ok());
    CHECK((*answer)->json == "{}");
}

TEST_CASE("past its deadline the caller is answered and the agent told") {
    World world;
    auto agent = world.offer(1);
    next(agent);
    const auto answer = ping(world, 50ms);
    REQUIRE_FALSE(answer.ok());
    CHECK(answer.error().code == ErrorCode::timed_out);
    const auto asked = std::get<shared::Ping>(*next(agent));
    CHECK(std::get<shared::Cancel>(*next(agent)).call == asked.call);
    auto lock = world.monitor.lock();
    CHECK(world.hosts.find(lock, "box")->calls_in_flight() == 0);
}

TEST_CASE("64 calls are in flight: one more is refused or waits in line") {
    World world;
    auto agent = world.offer(1);
    next(agent);
    std::vector<std::thread> callers;
    for (std::size_t i = 0; i < kCallsInFlight; ++i)
        callers.emplace_back([&] { (void)ping(world, 10s); });
    std::vector<std::uint64_t> calls;
    for (std::size_t i = 0; i < kCallsInFlight; ++i)
        calls.push_back(std::get<shared::Ping>(*next(agent)).call);
    const auto refused = ping(world, 10s);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::overloaded);
    bool got_in = false;  // Catch2 is for one thread: the main one judges after the join
    std::thread patient([&] { got_in = ping(world, 10s, WhenFull::wait).ok(); });
    const auto answer = [&](std::uint64_t call) {
        shared::Answer said;
        said.call = call;
        said.ok = true;
        say(agent, said);
    };
    answer(calls.front());
    answer(std::get<shared::Ping>(*next(agent)).call);  // the patient one got in
    for (std::size_t i = 1; i < calls.size(); ++i) answer(calls[i]);
    patient.join();
    CHECK(got_in);
    for (auto& caller : callers) caller.join();
}

TEST_CASE("a new generation ends the calls of the old with unavailable") {
    World world;
    auto first = world.offer(1);
    next(first);
    std::optional<shared::Result<shared::Answer>> answer;
    std::thread caller([&] { answer.emplace(ping(world, 10s)); });
    next(first);
    auto second = world.offer(2);
    caller.join();
    REQUIRE_FALSE(answer->ok());
    CHECK(answer->error().code == ErrorCode::unavailable);
    CHECK(std::holds_alternative<shared::Configure>(*next(second)));
    CHECK(world.listened(&World::Listener::ups) == 2);
    CHECK(world.listened(&World::Listener::downs) == 1);
    // What is late of the old generation changes nothing.
    world.on_loop([&] { world.hosts.agent_down({"box", 1, "signal 9", false}); });
    auto lock = world.monitor.lock();
    CHECK(world.hosts.find(lock, "box")->up());
}

TEST_CASE("an agent in `failed` fails calls at once with the cause") {
    World world;
    auto agent = world.offer(1);
    std::optional<shared::Result<shared::Answer>> answer;
    std::thread caller([&] { answer.emplace(ping(world, 10s)); });
    next(agent);
    next(agent);
    world.on_loop([&] { world.hosts.agent_down({"box", 1, "more than 10 deaths", true}); });
    caller.join();
    REQUIRE_FALSE(answer->ok());
    CHECK(answer->error().code == ErrorCode::unavailable);
    CHECK(answer->error().message.find("more than 10 deaths") != std::string::npos);
}

TEST_CASE("what does not decode ends that agent's channel, and the supervisor is told") {
    World world;
    auto agent = world.offer(1);
    next(agent);
    REQUIRE(agent.send(std::string(64, '\xff')).ok());
    REQUIRE(wait_for([&] { return world.listened(&World::Listener::downs) == 1; }));
    std::optional<shared::FromChild> told;
    REQUIRE(wait_for([&] {
        auto message = world.supervisor_end.receive();
        if (message && *message) {
            auto decoded = shared::decode<shared::FromChild>((*message)->bytes);
            if (decoded && std::holds_alternative<shared::SteerHost>(*decoded)) told = *decoded;
        }
        return told.has_value();
    }));
    CHECK(std::get<shared::SteerHost>(*told).steering == shared::Steering::restart);
}

TEST_CASE("what a host reports is kept") {
    World world;
    auto agent = world.offer(1);
    next(agent);
    shared::HostReport report;
    report.state = shared::HostState::ready;
    report.home = "/home/there";
    say(agent, shared::HostChanged{report});
    REQUIRE(wait_for([&] {
        auto lock = world.monitor.lock();
        return !world.saved.empty();
    }));
    auto lock = world.monitor.lock();
    CHECK(world.saved.back().home == "/home/there");
    CHECK(world.hosts.find(lock, "box")->report().state == shared::HostState::ready);
}
