// All hosts of the daemon: makes their ends, has their agents started, and is where callers ask.
//
// WantHost goes to the supervisor when a host is first needed; at most kMaxHosts. What a host
// reports is kept (through the saver) and sent to its next agent. Must not know what a cell or a
// session is.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/agents/host_end.h"
#include "api/agents/supervisor_link.h"
#include "api/metrics/metrics.h"

namespace agents {

inline constexpr std::size_t kMaxHosts = 512;

/// At the bulkhead: an HTTP caller is refused at once, the daemon's own work waits in line.
enum class WhenFull { refuse, wait };

/// Hears about every host; called with the Monitor held.
class HostListener {
  public:
    virtual ~HostListener() = default;
    virtual void channel_up(HostEnd& host) = 0;
    virtual void channel_down(HostEnd& host) = 0;
    /// `was` is the verdict before this report.
    virtual void host_reported(HostEnd& host, shared::HostState was) = 0;
};

class Hosts {
  public:
    using Saver = std::function<void(const std::string& host, const shared::HostReport&)>;
    Hosts(Monitor& monitor, Loop& loop, SupervisorLink& supervisor, Saver save);

    /// Before start: what the store remembers.
    void remember(const std::string& host, shared::HostReport report);
    void set_listener(HostListener* listener) { listener_ = listener; }
    /// Where calls are counted; lent. Before start.
    void set_metrics(metrics::Metrics* metrics) { metrics_ = metrics; }

    // Loop thread, without the Monitor:
    void take_offer(shared::ChannelOffer offer, std::vector<shared::UniqueFd> descriptors);
    void agent_down(const shared::AgentDown& down);

    // Any thread, with the Monitor:
    /// Null beyond kMaxHosts.
    HostEnd* need(const Monitor::Lock& lock, const std::string& host);
    HostEnd* find(const Monitor::Lock& lock, const std::string& host);
    std::vector<std::string> names(const Monitor::Lock& lock) const;

    // Any thread but the loop's, without the Monitor; blocks until the deadline at most.
    /// Errors: overloaded, unavailable, timed_out (the agent is told to stop), and what the agent
    /// answered; for Probe a failed host is an Answer too.
    shared::Result<shared::Answer> call(const std::string& host, shared::ToAgent request,
                                        shared::TimePoint deadline, WhenFull when_full);
    shared::Result<shared::HostReport> probe(const std::string& host, bool fresh,
                                             shared::TimePoint deadline, WhenFull when_full);

    SupervisorLink& supervisor() { return supervisor_; }

  private:
    HostEnd& make(const std::string& host);
    shared::Result<shared::Answer> ask(const std::string& host, shared::ToAgent request,
                                       shared::TimePoint deadline, WhenFull when_full);

    struct Entry {
        std::unique_ptr<HostEnd> end;
        bool wanted = false;
        shared::HostState last = shared::HostState::unknown;
    };
    Monitor& monitor_;
    Loop& loop_;
    SupervisorLink& supervisor_;
    Saver save_;
    HostListener* listener_ = nullptr;
    metrics::Metrics* metrics_ = nullptr;
    std::map<std::string, Entry> hosts_;
    std::condition_variable call_ended_;  // a place at some bulkhead is free
};

}  // namespace agents
