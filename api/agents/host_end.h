// One host as the api sees it: its channel, the calls in flight there, the attachments of its
// kernels, and what was last reported. Owns the channel's end; must not know what a cell is.
//
// Everything here wants the Monitor held; a HostEnd lives as long as the loop. A channel belongs to
// one agent: when that agent dies, every call that was sent ends with `unavailable`, every
// attachment hears channel_lost(), and what was not sent yet waits for the next channel within its
// deadline.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "api/agents/loop.h"
#include "api/agents/monitor.h"
#include "shared/channel.h"
#include "shared/clock.h"
#include "shared/control_messages.h"
#include "shared/messages.h"
#include "shared/result.h"

namespace agents {

inline constexpr std::size_t kCallsInFlight = 64;       // the bulkhead
inline constexpr std::size_t kBootsAtOnce = 4;          // of kernels, per host
inline constexpr std::size_t kQueuedBytes = 96u << 20;  // towards one agent that does not read

/// One attempt to reach a kernel, as the host end sees it.
class Attachment {
  public:
    virtual ~Attachment() = default;
    virtual void opened(const std::string& run) = 0;
    virtual void frame(shared::KernelFrame frame) = 0;
    virtual void closed(shared::CloseReason reason, const std::string& detail) = 0;
};

using CallDone = std::function<void(shared::Result<shared::Answer>)>;

class HostEnd {
  public:
    /// What the owner of all hosts wants to hear; called with the Monitor held.
    struct Events {
        std::function<void(HostEnd&)> channel_up;
        std::function<void(HostEnd&)> channel_down;
        std::function<void(HostEnd&)> reported;  // `report()` is another one
        std::function<void(HostEnd&)> broken;    // the agent broke the rules
    };
    HostEnd(std::string name, Monitor& monitor, Loop& loop, Events events);

    const std::string& name() const { return name_; }
    const shared::HostReport& report() const { return report_; }
    bool known() const { return report_.state != shared::HostState::unknown; }
    void set_known(shared::HostReport report) { report_ = std::move(report); }
    bool up() const { return channel_.has_value(); }
    /// Why there is no agent and will not be by itself; empty otherwise.
    const std::string& failure() const { return failure_; }
    std::uint64_t generation() const { return generation_; }
    std::size_t calls_in_flight() const { return calls_.size(); }

    // Loop thread:
    void take_channel(std::uint64_t generation, shared::ChannelEnd channel);
    void lose_channel(std::uint64_t generation, const std::string& cause, bool failed);

    // Any thread:
    /// Sends a request (Probe, EndKernel, Browse, Ping; its `call` is filled in here). `done` is
    /// called once, with the Monitor held, unless the call is cancelled. False at the bulkhead.
    bool call(shared::ToAgent request, CallDone done, std::uint64_t& call);
    /// The caller does not wait any more; the agent is told.
    void cancel(std::uint64_t call);

    /// A number for one attempt, heard by `attachment` until detached. 0 when there is no channel.
    std::uint32_t attach(Attachment& attachment);
    void detach(std::uint32_t kernel);
    /// Errors: unavailable (no channel), overloaded.
    shared::Result<void> send(const shared::ToAgent& message);

    /// Calls `begin` when one of the boot slots is free, perhaps now. It says whether it still
    /// wants the slot, and gives it back by release_boot().
    void acquire_boot(std::function<bool()> begin);
    void release_boot();

  private:
    struct Call {
        CallDone done;
        std::optional<shared::ToAgent> unsent;
    };
    void service();
    void take(shared::FromAgent message);
    void drop_channel(const std::string& cause);
    void fail_calls(const std::string& cause, bool unsent_too);

    std::string name_;
    Monitor& monitor_;
    Loop& loop_;
    Events events_;
    shared::HostReport report_;
    std::string failure_;
    std::uint64_t generation_ = 0;
    std::optional<shared::ChannelEnd> channel_;
    Loop::Watch watch_;
    bool service_posted_ = false;
    std::uint64_t next_call_ = 1;
    std::map<std::uint64_t, Call> calls_;
    std::uint32_t next_kernel_ = 1;
    std::map<std::uint32_t, Attachment*> attachments_;
    std::size_t boots_ = 0;
    std::deque<std::function<bool()>> waiting_boots_;
};

}  // namespace agents
