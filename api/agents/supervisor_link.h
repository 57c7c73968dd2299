// The api's end of the control socket to its supervisor (descriptor kControlFd, one datagram one
// message, descriptors riding along). Knows the messages, not what they are for.
//
//  1. wait_welcome() blocks for the first message, which brings the process page and the listener.
//  2. start() watches the socket on the loop and hands every event to the handler there.
//  3. Questions (processes, flight, steering) are answered to the thread that waits for them.
//  4. End-of-file means that the supervisor is gone or wants us gone: the handler's end() is
//  called.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "api/agents/loop.h"
#include "shared/clock.h"
#include "shared/control_messages.h"
#include "shared/control_socket.h"
#include "shared/result.h"
#include "shared/unique_fd.h"

namespace agents {

struct WelcomeMessage {
    shared::Welcome welcome;
    shared::UniqueFd page;
    shared::UniqueFd listener;
};

class SupervisorLink {
  public:
    /// What the supervisor says by itself; called on the loop, without any lock.
    struct Handler {
        std::function<void(shared::ChannelOffer, std::vector<shared::UniqueFd>)> offer;
        std::function<void(shared::AgentDown)> agent_down;
        std::function<void()> drain;
        std::function<void()> end;
    };

    SupervisorLink(Loop& loop, shared::UniqueFd control);

    /// Errors: protocol (no Welcome, or without its descriptors), timed_out.
    shared::Result<WelcomeMessage> wait_welcome(shared::Milliseconds within);
    void start(Handler handler);

    // Any thread, never blocking. What the socket does not take now waits there.
    void send(const shared::FromChild& message);

    // Any thread but the loop's; each waits for the supervisor's answer. Errors: timed_out.
    shared::Result<std::vector<shared::ProcessInfo>> ask_processes(shared::TimePoint deadline);
    shared::Result<std::vector<std::pair<std::int64_t, std::string>>> ask_flight(
        const std::string& host, shared::TimePoint deadline);
    shared::Result<shared::Steered> steer(const std::string& host, shared::Steering steering,
                                          shared::TimePoint deadline);

  private:
    struct Question;
    void readable();
    void take(shared::ToChild message, std::vector<shared::UniqueFd> descriptors, bool lost);
    void plan_flush();
    template <class Ask>
    shared::Result<void> ask(Ask message, Question& question, shared::TimePoint deadline);

    Loop& loop_;
    Handler handler_;
    std::mutex mutex_;  // over what follows; a leaf: nothing else is locked under it
    shared::ControlSocket control_;
    bool flush_planned_ = false;
    std::uint64_t next_call_ = 1;
    std::map<std::uint64_t, Question*> questions_;
    Loop::Watch watch_;
};

}  // namespace agents
