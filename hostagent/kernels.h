// The kernels of one host as far as the agent knows them: numbers of attachments, and the bridge
// that carries them all.
//
//  1. The first need opens the bridge: where the host was last known to have the bundle, without
//  asking
//     anything before; only if it is not there, after probe and staging. All who wait join.
//  2. Each attachment is asked of the bridge (`open`, `start`), and is open when it says so. Frames
//  are
//     copied both ways unread; those with a number that nobody opened here are dropped.
//  3. When the bridge dies every attachment is `dropped`, and the next need opens another one. When
//  it
//     cannot be opened all who wait are told why.
//
// Must not know the channel, nor what frames say.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "hostagent/bridge_link.h"
#include "hostagent/host.h"
#include "shared/messages.h"

namespace hostagent {

inline constexpr shared::Milliseconds kBridgeDeadline{
    30'000};  // a connection, start-up files, Python
inline constexpr shared::Milliseconds kAliveDeadline{
    2500};  // for a bridge, after news of the network

class Kernels {
  public:
    struct Events {
        std::function<void(const shared::FromAgent&)> tell;  // opened, closed, frames
        std::function<bool()> full;               // whoever listens to `tell` does not keep up
        std::function<void(const char*)> record;  // for the flight recorder
    };
    /// The answer of the bridge, or nothing when it ended first.
    using Answered = std::function<void(std::optional<std::string>)>;

    Kernels(asio::any_io_executor executor, Host& host, Events events);

    void open(shared::OpenKernel open);
    void frame(const shared::KernelFrame& frame);
    void close(std::uint32_t kernel);
    /// Nobody is told: the other end of the channel is a new one.
    void close_all();

    /// A question about the host over the bridge. False: there is none.
    bool ask(const std::string& request, Answered answered);

    /// Writes what the calls above queued; at the end of each batch.
    void flush();
    /// Events::full() may say otherwise now.
    void resume();
    /// Addresses changed or the machine slept: a bridge that does not answer soon is dropped.
    void network_changed();
    void stop();
    /// The bridge's connection ends here and now, as if the network had taken it.
    void cut(const std::string& why) {
        if (bridge_) bridge_down(why);
    }

    bool up() const { return bridge_ != nullptr; }
    pid_t bridge_pid() const { return bridge_ ? bridge_->pid() : 0; }
    std::size_t count() const { return kernels_.size(); }
    shared::TimePoint last_frame() const { return last_frame_; }

  private:
    enum class Phase { waiting, asked, open };
    struct Kernel {
        Phase phase = Phase::waiting;
        bool start = false;
        std::string request;
    };
    struct Failure {
        shared::CloseReason reason;
        std::string detail;
    };

    void want_bridge();
    asio::awaitable<void> open_bridge();
    asio::awaitable<std::optional<Failure>> try_bridge();
    asio::awaitable<std::optional<Failure>> launch_bridge(const Place& place, bool& not_there);
    void bridge_up(BridgeLink::Opened opened);
    void bridge_down(const std::string& detail);
    void ask_for(std::uint32_t kernel, Kernel& state);
    void take(shared::Frame frame);
    void closed(std::uint32_t kernel, shared::CloseReason reason, const std::string& detail);
    void send_close(std::uint32_t kernel);
    asio::awaitable<void> check_bridge();

    asio::any_io_executor executor_;
    Host& host_;
    Events events_;
    std::shared_ptr<BridgeLink> bridge_;
    bool opening_ = false;
    std::map<std::uint32_t, Kernel> kernels_;
    std::map<std::uint64_t, Answered> asked_;
    std::uint64_t next_ask_ = 1;
    shared::TimePoint last_frame_{};
    Event alive_;
};

}  // namespace hostagent
