// The agent: one host's process. Its one loop carries the control socket, the channel to the api,
// and who is answered.
//
//  1. The supervisor's Welcome names the host; Ready goes back at once, before anything is looked
//  at.
//  2. Each ChannelOffer is a new generation: ssh and bridge stay, calls of before are dropped,
//  every
//     attachment is closed. The api opens what it wants again.
//  3. Requests are answered once each; what concerns kernels goes to Kernels, what the host itself
//  to
//     Host. More than kChannelBytes waiting for the api stops the reading of the bridge.
//  4. The end of the control socket is the end of the process, with everything it started.
//
// Keeps nothing that must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "hostagent/host.h"
#include "hostagent/kernels.h"
#include "hostagent/network_watch.h"
#include "shared/channel.h"
#include "shared/control_socket.h"
#include "shared/messages.h"
#include "shared/process_page.h"

namespace hostagent {

inline constexpr std::size_t kChannelBytes = 512 * 1024;  // waiting for the api

class Agent {
  public:
    explicit Agent(shared::ControlSocket control);
    /// Until the end; the process's exit code.
    int run();

  private:
    // Control socket.
    void watch_control();
    bool take_control();
    void welcome(const shared::Welcome& welcome, std::vector<shared::UniqueFd> descriptors);
    void offer(const shared::ChannelOffer& offer, shared::ControlMessage& message);
    void say(const shared::FromChild& message);
    void drain();
    asio::awaitable<void> finish();
    void beat();

    // Channel.
    void adopt(shared::ChannelEnd channel);
    void watch_channel();
    void serve_channel();
    void tell(const shared::FromAgent& message);
    void break_channel(const shared::Error& error);

    // Calls (agent_calls.cpp).
    struct Caller {
        std::uint64_t generation;
        std::uint64_t call;
    };
    void take(shared::ToAgent message);
    Caller begin(std::uint64_t call);
    void answer(Caller caller, shared::Answer answer);
    void answer_json(Caller caller, shared::Result<std::string> json);
    void answer_failure(Caller caller, const Verdict& verdict);
    asio::awaitable<void> probe(Caller caller, bool fresh);
    void browse(Caller caller, shared::Browse browse);
    asio::awaitable<void> browse_alone(Caller caller, shared::Browse browse);
    asio::awaitable<void> browse_now(Caller caller, shared::Browse browse);
    asio::awaitable<void> end_kernel(Caller caller, shared::EndKernel end);
    asio::awaitable<std::optional<Place>> place_for(Caller caller);
    void ping(Caller caller);
    void fault(Caller caller, shared::FaultKind kind);

    asio::io_context loop_{1};
    shared::ControlSocket control_;
    asio::posix::stream_descriptor control_watch_;
    std::optional<shared::ProcessPage> page_;
    asio::signal_set signals_;  // SIGTERM: the drain took too long
    asio::steady_timer heartbeat_;
    std::unique_ptr<Host> host_;
    std::unique_ptr<Kernels> kernels_;
    std::unique_ptr<NetworkWatch> network_;
    int exit_code_ = 0;
    bool draining_ = false;
    shared::TimePoint started_ = shared::Monotonic::now();

    std::optional<shared::ChannelEnd> channel_;
    std::optional<asio::posix::stream_descriptor> channel_watch_;
    std::uint64_t generation_ = 0;
    std::set<std::uint64_t> calls_;
};

}  // namespace hostagent
