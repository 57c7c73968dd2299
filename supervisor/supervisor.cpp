#include "supervisor/supervisor.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <string_view>
#include <utility>

#include "shared/channel.h"
#include "shared/child_process.h"
#include "shared/ids.h"
#include "shared/log.h"

namespace supervisor {

using shared::Error;
using shared::ErrorCode;
using shared::Monotonic;

namespace {

constexpr std::size_t kProcessesPerMessage = 32;  // well under kMaxControlBytes
constexpr std::size_t kMaxHidden = 256;

// The environment of a child: ours, without `hidden`, with what `set` says.
std::vector<std::string> environment_without(const std::vector<std::string>& hidden,
                                             std::vector<std::string> set) {
    const auto name_of = [](std::string_view entry) { return entry.substr(0, entry.find('=')); };
    for (char** entry = environ; *entry; ++entry) {
        const auto name = name_of(*entry);
        const bool ours = std::any_of(set.begin(), set.end(),
                                      [&](const auto& each) { return name_of(each) == name; });
        const bool hide = std::find(hidden.begin(), hidden.end(), name) != hidden.end();
        if (!ours && !hide) set.emplace_back(*entry);
    }
    return set;
}

// A host's name stands in argv, file names and logs. Whether ssh likes it is the agent's question.
bool usable_host(const std::string& host) {
    return !host.empty() && host.size() <= kMaxHostBytes && host.front() != '-' &&
           std::none_of(host.begin(), host.end(),
                        [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

const char* order_name(shared::Steering steering) {
    switch (steering) {
        case shared::Steering::restart:
            return "restart";
        case shared::Steering::stop:
            return "stop";
        case shared::Steering::quarantine:
            return "quarantine";
        case shared::Steering::release:
            return "release";
        case shared::Steering::kill:
            return "kill";
    }
    return "";
}

}  // namespace

Supervisor::Supervisor(const Home& home, SupervisorSetup setup)
    : home_(home),
      setup_(std::move(setup)),
      listener_(setup_.port),
      token_(shared::random_hex(32)),
      owner_(shared::random_hex(16)),
      started_wall_ms_(shared::wall_ms()),
      started_(Monotonic::now()),
      ticks_(setup_.timing),
      tick_alarm_(loop_, [this] { tick(); }) {
    api_ = std::make_unique<Child>(
        loop_, Child::Identity{"api", "", shared::sibling_program("albedo-api")}, setup_.timing,
        home_.layout().blackbox_folder(), *this);
}

Supervisor::~Supervisor() = default;

int Supervisor::run() {
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) signals_.add(number);
    await_signal();
    tick();
    if (auto opened = listener_.open(); !opened) {
        report(opened.error().message);
        return 1;
    }
    shared::log_info("supervisor started", {{"pid", std::to_string(getpid())},
                                            {"port", std::to_string(listener_.port())}});
    api_->want();
    while (!loop_.stopped()) {
        try {
            loop_.run();
        } catch (const std::exception& fault) {
            // One event went wrong; all others still have their turn.
            shared::log_error("event failed", {{"error", fault.what()}});
        }
    }
    home_.withdraw();
    shared::log_info("supervisor ended", {{"exit", std::to_string(exit_code_)}});
    return exit_code_;
}

template <class Visit>
void Supervisor::each_child(Visit visit) {
    visit(*api_);
    for (auto& [host, agent] : agents_) visit(*agent.child);
}

// --- children ------------------------------------------------------------------------------------

shared::Result<Greeting> Supervisor::greet(const Child& child) {
    Greeting greeting;
    greeting.welcome = {.home = home_.layout().root().string(),
                        .host = child.host(),
                        .token = {},
                        .owner = owner_,
                        .port = listener_.port(),
                        .started_wall_ms = started_wall_ms_};
    const std::vector<std::string> set{"ALBEDO_HOME=" + greeting.welcome.home,
                                       "ALBEDO_SOFT_NOFILE=" + std::to_string(setup_.soft_nofile)};
    if (&child != api_.get()) {
        agents_.at(child.host()).messages = 0;
        greeting.environment = environment_without(hidden_, set);
        return greeting;
    }
    if (auto opened = listener_.open(); !opened) return opened.error();
    greeting.welcome.token = token_;
    greeting.descriptors = {listener_.fd()};
    greeting.environment = environment_without({}, set);
    return greeting;
}

void Supervisor::child_ready(Child& child) {
    if (stopping_) return;
    if (&child == api_.get()) return api_ready();
    connect(agents_.at(child.host()));
}

void Supervisor::child_said(Child& child, shared::FromChild message) {
    if (&child == api_.get()) return api_said(std::move(message));
    agent_said(agents_.at(child.host()), message);
}

void Supervisor::child_ended(Child& child) {
    if (&child == api_.get()) {
        api_ended();
    } else {
        tell_down(agents_.at(child.host()));
    }
    finish_if_alone();
}

void Supervisor::api_ready() {
    if (!published_) {
        if (auto written = home_.publish(listener_.port(), token_, started_wall_ms_); !written) {
            return give_up(written.error().message);
        }
        published_ = true;
        report("");
        shared::log_info("daemon ready", {{"port", std::to_string(listener_.port())}});
    }
    for (auto& [host, agent] : agents_) {
        if (agent.child->up()) connect(agent);
    }
}

void Supervisor::api_ended() {
    const auto& machine = api_->machine();
    // A connection nobody is going to accept is better refused. The next start opens it again.
    if (machine.state() == ChildState::failed) listener_.close();
    if (published_ || stopping_) return;
    const bool too_late = Monotonic::now() - started_ >= setup_.timing.ready_within;
    if (machine.restarts() + 1 < kFirstStartDeaths && !too_late) return;
    std::string reason = "albedo-api does not come up: " + machine.last_cause();
    if (!api_->last_words().empty()) reason += "\n" + api_->last_words();
    give_up(reason);
}

// --- what the children say -----------------------------------------------------------------------

void Supervisor::agent_said(Agent& agent, const shared::FromChild& message) {
    const auto* failed = std::get_if<shared::HandoverFailed>(&message);
    if (!failed || ++agent.messages > kMaxAgentMessages) {
        return agent.child->broke_rules("said what an agent may not say");
    }
    if (failed->generation == agent.generation) connect(agent);
}

void Supervisor::api_said(shared::FromChild message) {
    using namespace shared;
    if (const auto* want = std::get_if<WantHost>(&message)) {
        want_host(want->host);
    } else if (const auto* order = std::get_if<SteerHost>(&message)) {
        api_->send(steer_host(*order));
    } else if (const auto* processes = std::get_if<AskProcesses>(&message)) {
        answer_processes(processes->call);
    } else if (const auto* ask = std::get_if<AskFlight>(&message)) {
        answer_flight(*ask);
    } else if (std::holds_alternative<WantShutdown>(message)) {
        if (!stopping_) stop("asked by the api");
    } else if (const auto* failed = std::get_if<HandoverFailed>(&message)) {
        const auto agent = agents_.find(failed->host);
        if (agent != agents_.end() && agent->second.generation == failed->generation) {
            connect(agent->second);
        }
    } else if (auto* hide = std::get_if<HideVariables>(&message)) {
        hide->names.resize(std::min(hide->names.size(), kMaxHidden));
        hidden_ = std::move(hide->names);
    }
}

shared::Result<Supervisor::Agent*> Supervisor::agent_for(const std::string& host) {
    if (auto known = agents_.find(host); known != agents_.end()) return &known->second;
    if (!usable_host(host)) return Error{ErrorCode::invalid, "not usable as a host's name", host};
    if (agents_.size() >= kMaxAgents) {
        const auto idle = std::find_if(agents_.begin(), agents_.end(), [](const auto& entry) {
            return entry.second.child->machine().state() == ChildState::stopped;
        });
        if (idle == agents_.end()) {
            return Error{ErrorCode::overloaded,
                         std::to_string(kMaxAgents) + " hosts have an agent already; stop one",
                         host};
        }
        generation_floor_ = std::max(generation_floor_, idle->second.generation);
        agents_.erase(idle);
    }
    Agent agent;
    agent.generation = generation_floor_;
    agent.child = std::make_unique<Child>(
        loop_, Child::Identity{"agent", host, shared::sibling_program("albedo-hostagent")},
        setup_.timing, home_.layout().blackbox_folder(), *this);
    return &agents_.emplace(host, std::move(agent)).first->second;
}

void Supervisor::want_host(const std::string& host) {
    if (stopping_) return;
    auto agent = agent_for(host);
    if (!agent) {
        return api_->send(shared::AgentDown{host, 0, agent.error().message, true});
    }
    // Said again for an api that was not there when it came to this.
    if ((*agent)->child->machine().failed() || (*agent)->child->machine().quarantined()) {
        return tell_down(**agent);
    }
    (*agent)->child->want();
}

shared::Steered Supervisor::steer_host(const shared::SteerHost& order) {
    using shared::Steering;
    shared::Steered answer{.call = order.call, .ok = false, .message = {}};
    const bool makes_one = order.steering == Steering::restart ||
                           order.steering == Steering::quarantine ||
                           order.steering == Steering::release;
    if (!makes_one && agents_.count(order.host) == 0) {
        answer.message = "no agent for " + order.host;
        return answer;
    }
    auto agent = agent_for(order.host);
    if (!agent) {
        answer.message = agent.error().message;
        return answer;
    }
    Child& child = *(*agent)->child;
    auto done = child.steer(order.steering);
    answer.ok = done.ok();
    if (!done) {
        answer.message = done.error().message;
        return answer;
    }
    shared::log_info("agent steered", {{"host", order.host},
                                       {"order", order_name(order.steering)},
                                       {"state", to_string(child.machine().state())}});
    // Held without having run: no death will tell.
    if (!child.machine().running() && child.machine().held()) tell_down(**agent);
    return answer;
}

void Supervisor::answer_processes(std::uint64_t call) {
    shared::ProcessInfo own;
    own.name = "supervisor";
    own.pid = getpid();
    own.state = "up";
    own.since_wall_ms = started_wall_ms_;
    shared::Processes answer{.call = call, .processes = {std::move(own)}, .more = true};
    each_child([&](Child& child) {
        auto info = child.info();
        if (auto agent = agents_.find(child.host()); agent != agents_.end()) {
            info.generation = agent->second.generation;
        }
        answer.processes.push_back(std::move(info));
        if (answer.processes.size() < kProcessesPerMessage) return;
        api_->send(answer);
        answer.processes.clear();
    });
    answer.more = false;
    api_->send(answer);
}

void Supervisor::answer_flight(const shared::AskFlight& ask) {
    shared::Flight answer{.call = ask.call, .wall_ms = {}, .texts = {}, .more = false};
    if (auto agent = agents_.find(ask.host); agent != agents_.end()) {
        for (auto& event : agent->second.child->flight()) {
            answer.wall_ms.push_back(event.wall_ms);
            answer.texts.push_back(std::move(event.text));
        }
    }
    api_->send(answer);
}

// --- channels ------------------------------------------------------------------------------------

void Supervisor::tell_down(const Agent& agent) {
    const auto& machine = agent.child->machine();
    if (!api_->up() || stopping_) return;
    api_->send(shared::AgentDown{.host = agent.child->host(),
                                 .generation = agent.generation,
                                 .cause = machine.last_cause(),
                                 .failed = machine.failed() || machine.held()});
}

void Supervisor::connect(Agent& agent) try {
    if (!api_->up() || !agent.child->up() || stopping_) return;
    const auto channel = shared::create_channel();
    const shared::ChannelOffer offer{agent.child->host(), ++agent.generation};
    const auto hand = [&](Child& child, const shared::ChannelDescriptors& end) {
        child.send(offer, {end.memory.get(), end.own_wake.get(), end.peer_wake.get()});
    };
    hand(*agent.child, channel.agent);
    hand(*api_, channel.api);
} catch (const std::exception& fault) {
    // Out of descriptors: a later start of this agent tries again, by the restart policy.
    agent.child->broke_rules(std::string("no channel: ") + fault.what());
}

// --- time and the end ----------------------------------------------------------------------------

void Supervisor::tick() {
    const auto now = Monotonic::now();
    const auto trusted_since = ticks_.tick(now);
    each_child([&](Child& child) { child.look(now, trusted_since); });
    tick_alarm_.set(now + setup_.timing.tick);
}

void Supervisor::await_signal() {
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
        if (error) return;
        await_signal();
        // A daemon in the background does not belong to the terminal that hangs up.
        if (number == SIGHUP && !setup_.foreground) return;
        stop(number == SIGTERM ? "SIGTERM" : number == SIGINT ? "SIGINT" : "SIGHUP");
    });
}

void Supervisor::stop(const char* why) {
    const bool again = std::exchange(stopping_, true);
    shared::log_info(again ? "stopping at once" : "stopping", {{"why", why}});
    report("stopped before it was ready");
    each_child([&](Child& child) { again ? child.kill_for_good() : child.drain(); });
    finish_if_alone();
}

void Supervisor::give_up(const std::string& reason) {
    shared::log_error("giving up", {{"reason", reason}});
    exit_code_ = 1;
    stopping_ = true;
    report(reason);
    each_child([](Child& child) { child.kill_for_good(); });
    finish_if_alone();
}

void Supervisor::report(const std::string& error) {
    if (!std::exchange(reported_, true) && setup_.report) setup_.report(error);
}

void Supervisor::finish_if_alone() {
    if (!stopping_) return;
    bool alone = true;
    each_child([&](Child& child) { alone = alone && !child.machine().running(); });
    if (alone) loop_.stop();
}

}  // namespace supervisor
