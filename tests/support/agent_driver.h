// A hostagent process as the supervisor and the api would drive it: over a real control socket and
// a real channel. Owns the process and both other ends; every wait has a deadline.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shared/channel.h"
#include "shared/child_process.h"
#include "shared/control_socket.h"
#include "shared/messages.h"

namespace support {

struct AgentPlace {
    std::string home;  // $ALBEDO_HOME
    std::string host;
    std::vector<std::string> environment;  // all of it, "NAME=value"
};

class AgentDriver {
  public:
    /// Started, welcomed, Ready, with a first channel; `known` is the Configure sent first.
    explicit AgentDriver(AgentPlace place, const shared::HostReport& known = {});

    pid_t pid() const { return agent_->pid(); }
    /// SIGKILL, reaped; the driver is of no more use.
    void kill();
    /// Closes the control socket and waits for the process: true if it ended within 2 s.
    bool hang_up();
    /// What the supervisor sends at the daemon's end; true if the process ended within 5 s.
    bool drain();
    void new_generation();

    void send(const shared::ToAgent& message);
    /// The next message that `wanted` accepts; others are kept for later calls. Nothing after
    /// `milliseconds`.
    using Wanted = std::function<bool(const shared::FromAgent&)>;
    std::optional<shared::FromAgent> wait(const Wanted& wanted, int milliseconds = 20'000);

    // Calls, with their answers.
    shared::Answer probe(bool fresh);
    shared::Answer browse(const std::string& request, bool fresh);
    shared::Answer end_kernel(const std::string& run);
    shared::Answer ping();
    shared::Answer answer_to(std::uint64_t call, int milliseconds = 40'000);
    std::uint64_t next_call() { return ++call_; }

    /// Every state and step reported so far, as "state/step".
    const std::vector<std::string>& reported() const { return reported_; }
    const shared::HostReport& report() const { return report_; }

  private:
    void pump(int milliseconds);
    bool wait_end(int milliseconds);

    AgentPlace place_;
    std::optional<shared::ControlSocket> control_;
    std::optional<shared::ChildProcess> agent_;
    std::optional<shared::ChannelEnd> channel_;
    std::uint64_t generation_ = 0;
    std::uint64_t call_ = 0;
    std::vector<shared::FromAgent> kept_;
    std::vector<std::string> reported_;
    shared::HostReport report_;
};

}  // namespace support
