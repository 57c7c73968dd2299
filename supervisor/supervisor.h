// The daemon's first process: one loop that starts, watches, connects and ends all others.
//
//  1. It starts the api. At the api's first Ready it publishes daemon.json and says `ready`; if the
//     api cannot be brought up it gives up and says why.
//  2. WantHost starts that host's agent. Whenever both the api and an agent are ready they get a
//  new
//     channel, of the next generation: after either of them died, and after a failed handover.
//  3. A tick a second looks for children that hang.
//  4. SIGTERM, SIGINT or WantShutdown drain all children; a second one ends them at once.
//
// It parses nothing from the network or a host and holds no user data. An agent is not trusted: it
// may say Ready and HandoverFailed, a few times, and is ended for anything else.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shared/control_messages.h"
#include "supervisor/child.h"
#include "supervisor/home.h"
#include "supervisor/timing.h"
#include "supervisor/watchdog.h"

namespace supervisor {

struct SupervisorSetup {
    Timing timing;
    bool foreground = false;
    std::uint16_t port = 0;
    std::uint64_t soft_nofile = 0;  // the user's own limit, for kernels: $ALBEDO_SOFT_NOFILE
    /// Told once: empty when the daemon can be used, else why it cannot.
    std::function<void(const std::string& error)> report;
};

class Supervisor final : public ChildOwner {
  public:
    Supervisor(const Home& home, SupervisorSetup setup);
    ~Supervisor() override;

    /// Runs until all children are gone. The exit code: 0 after an orderly stop, 1 when the api
    /// never came up. Throws std::system_error for faults at the start.
    int run();

  private:
    struct Agent {
        std::unique_ptr<Child> child;
        std::uint64_t generation = 0;
        int messages = 0;  // in this life
    };

    shared::Result<Greeting> greet(const Child& child) override;
    void child_ready(Child& child) override;
    void child_said(Child& child, shared::FromChild message) override;
    void child_ended(Child& child) override;

    void api_ready();
    void api_ended();
    void api_said(shared::FromChild message);
    void agent_said(Agent& agent, const shared::FromChild& message);

    void want_host(const std::string& host);
    shared::Steered steer_host(const shared::SteerHost& order);
    void answer_processes(std::uint64_t call);
    void answer_flight(const shared::AskFlight& ask);
    /// The agent's entry, made if there is room. Errors: invalid, overloaded.
    shared::Result<Agent*> agent_for(const std::string& host);
    void tell_down(const Agent& agent);
    void connect(Agent& agent);

    void await_signal();
    void tick();
    void stop(const char* why);
    void give_up(const std::string& reason);
    void report(const std::string& error);
    void finish_if_alone();
    template <class Visit>
    void each_child(Visit visit);

    boost::asio::io_context loop_{1};
    boost::asio::signal_set signals_{loop_};
    const Home& home_;
    SupervisorSetup setup_;
    Listener listener_;
    std::string token_;
    std::string owner_;
    std::int64_t started_wall_ms_;
    shared::TimePoint started_;
    std::unique_ptr<Child> api_;
    std::map<std::string, Agent> agents_;
    std::uint64_t generation_floor_ = 0;  // of entries that were dropped to make room
    std::vector<std::string> hidden_;     // variables no agent gets
    OwnTicks ticks_;
    Alarm tick_alarm_;
    bool published_ = false;
    bool reported_ = false;
    bool stopping_ = false;
    int exit_code_ = 0;
};

}  // namespace supervisor
