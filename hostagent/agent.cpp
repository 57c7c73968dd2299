#include "hostagent/agent.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <system_error>

#include "shared/archive.h"
#include "shared/home.h"
#include "shared/log.h"

namespace hostagent {

using shared::ControlMessage;
using shared::Counter;
using shared::ErrorCode;
using shared::Milliseconds;
using shared::Monotonic;
using shared::TimePoint;

namespace {

using Descriptor = asio::posix::stream_descriptor;

constexpr int kMessagesPerTurn = 128;  // then others of the loop have their turn
constexpr Milliseconds kDrainTick{50};
constexpr Milliseconds kDrainQuiet{300};    // no frame for so long: nothing is being finished
constexpr Milliseconds kDrainAtMost{4500};  // the supervisor's limit is 5 s

int duplicate(int fd) {
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) throw std::system_error(errno, std::generic_category(), "dup");
    return copy;
}

}  // namespace

Agent::Agent(shared::ControlSocket control)
    : control_(std::move(control)),
      control_watch_(loop_, duplicate(control_.fd())),
      signals_(loop_, SIGTERM),
      heartbeat_(loop_) {}

int Agent::run() {
    watch_control();
    signals_.async_wait([this](const boost::system::error_code& error, int) {
        if (!error) asio::co_spawn(loop_, finish(), asio::detached);
    });
    loop_.run();
    return exit_code_;
}

// --- control socket -----------------------------------------------------------------------------

void Agent::watch_control() {
    control_watch_.async_wait(Descriptor::wait_read,
                              [this](const boost::system::error_code& error) {
                                  if (error || !take_control())
                                      loop_.stop();
                                  else
                                      watch_control();
                              });
}

/// False at the end.
bool Agent::take_control() {
    for (;;) {
        auto received = control_.receive();
        if (!received) {
            shared::log_error("control socket fails", {{"why", received.error().message}});
            exit_code_ = 1;
            return false;
        }
        if (!*received) return true;
        ControlMessage& message = **received;
        if (message.bytes.empty()) return false;  // the supervisor is gone, or wants us gone
        auto decoded = shared::decode<shared::ToChild>(message.bytes);
        if (!decoded) {
            exit_code_ = 1;
            return false;
        }
        if (const auto* first = std::get_if<shared::Welcome>(&*decoded))
            welcome(*first, std::move(message.descriptors));
        else if (const auto* offered = std::get_if<shared::ChannelOffer>(&*decoded))
            offer(*offered, message);
        else if (std::holds_alternative<shared::Drain>(*decoded))
            drain();
    }
}

void Agent::welcome(const shared::Welcome& welcome, std::vector<shared::UniqueFd> descriptors) {
    if (host_) return;
    if (!descriptors.empty())
        if (auto page = shared::ProcessPage::attach(std::move(descriptors.front())))
            page_.emplace(std::move(*page));
    if (page_) page_->beat();
    say(shared::Ready{});

    const std::filesystem::path home = welcome.home;
    shared::open_log({shared::HomeLayout(home).log_file(), "agent " + welcome.host});
    auto transport =
        welcome.host == shared::kLocalHost ? local_transport() : ssh_transport(welcome.host, home);
    const auto executor = loop_.get_executor();
    host_ = std::make_unique<Host>(
        executor, std::move(transport), home,
        [this](const shared::HostReport& report) { tell(shared::HostChanged{report}); });
    Kernels::Events events;
    events.tell = [this](const shared::FromAgent& message) { tell(message); };
    events.full = [this] { return channel_ && channel_->queued_bytes() > kChannelBytes; };
    events.record = [this](const char* event) {
        if (page_) page_->record(event);
    };
    kernels_ = std::make_unique<Kernels>(executor, *host_, std::move(events));
    network_ = std::make_unique<NetworkWatch>(executor, [this] { kernels_->network_changed(); });
    beat();
}

void Agent::offer(const shared::ChannelOffer& offer, ControlMessage& message) {
    if (!host_ || offer.generation <= generation_) return;
    if (!message.descriptors_lost && message.descriptors.size() == 3) {
        shared::ChannelDescriptors descriptors{std::move(message.descriptors[0]),
                                               std::move(message.descriptors[1]),
                                               std::move(message.descriptors[2])};
        auto channel =
            shared::ChannelEnd::attach(std::move(descriptors), shared::ChannelSide::agent);
        if (channel) {
            generation_ = offer.generation;
            adopt(std::move(*channel));
            return;
        }
    }
    say(shared::HandoverFailed{offer.host, offer.generation});
}

void Agent::say(const shared::FromChild& message) {
    if (!control_.send(shared::encode(message))) loop_.stop();
}

void Agent::beat() {
    if (page_) {
        page_->beat();
        page_->set(Counter::calls_in_flight, static_cast<std::int64_t>(calls_.size()));
        page_->set(Counter::kernels, static_cast<std::int64_t>(kernels_->count()));
        if (channel_) {
            const auto& counters = channel_->counters();
            page_->set(Counter::messages_in, static_cast<std::int64_t>(counters.messages_received));
            page_->set(Counter::messages_out, static_cast<std::int64_t>(counters.messages_sent));
            page_->set(Counter::bytes_in, static_cast<std::int64_t>(counters.bytes_received));
            page_->set(Counter::bytes_out, static_cast<std::int64_t>(counters.bytes_sent));
            page_->set(Counter::wakes, static_cast<std::int64_t>(counters.wakes_received));
        }
    }
    heartbeat_.expires_after(shared::kHeartbeatPeriod);
    heartbeat_.async_wait([this](const boost::system::error_code& error) {
        if (!error) beat();
    });
}

void Agent::drain() {
    if (std::exchange(draining_, true)) return;
    asio::co_spawn(
        loop_,
        [this]() -> asio::awaitable<void> {
            const TimePoint at_most = Monotonic::now() + kDrainAtMost;
            asio::steady_timer tick(loop_);
            while (kernels_ && Monotonic::now() < at_most) {
                const bool idle =
                    calls_.empty() && (kernels_->count() == 0 ||
                                       Monotonic::now() - kernels_->last_frame() > kDrainQuiet);
                if (idle) break;
                tick.expires_after(kDrainTick);
                co_await tick.async_wait(kByTuple);
            }
            co_await finish();
        },
        asio::detached);
}

/// Kernels stay, on purpose; what only served us goes.
asio::awaitable<void> Agent::finish() {
    if (kernels_) kernels_->stop();
    if (host_) co_await host_->transport().stop();
    loop_.stop();
}

// --- channel ------------------------------------------------------------------------------------

void Agent::adopt(shared::ChannelEnd channel) {
    kernels_->close_all();
    calls_.clear();
    channel_watch_.reset();
    channel_.emplace(std::move(channel));
    channel_watch_.emplace(loop_, duplicate(channel_->wake_fd()));
    tell(shared::HostChanged{host_->report()});
    serve_channel();
}

void Agent::watch_channel() {
    channel_watch_->async_wait(Descriptor::wait_read, [this, generation = generation_](
                                                          const boost::system::error_code& error) {
        if (!error && generation == generation_) serve_channel();
    });
}

void Agent::serve_channel() {
    if (!channel_) return;
    channel_->woken();
    bool empty = false;
    for (int taken = 0; taken < kMessagesPerTurn && !empty; ++taken) {
        auto bytes = channel_->receive();
        if (!bytes) return break_channel(bytes.error());
        empty = !bytes->has_value();
        if (empty) break;
        auto message = shared::decode<shared::ToAgent>(**bytes);
        if (!message) return break_channel(message.error());
        take(std::move(*message));
        if (!channel_) return;
    }
    kernels_->flush();
    if (auto flushed = channel_->flush(); !flushed) return break_channel(flushed.error());
    if (channel_->queued_bytes() <= kChannelBytes) kernels_->resume();
    if (empty && channel_->prepare_to_sleep())
        watch_channel();
    else
        asio::post(loop_, [this, generation = generation_] {
            if (generation == generation_) serve_channel();
        });
}

void Agent::tell(const shared::FromAgent& message) {
    if (!channel_) return;
    auto sent = channel_->send(shared::encode(message));
    if (!sent && sent.error().code == ErrorCode::protocol) break_channel(sent.error());
}

void Agent::break_channel(const shared::Error& error) {
    shared::log_error("channel broken", {{"why", error.message}});
    channel_watch_.reset();
    channel_.reset();
    calls_.clear();
    say(shared::HandoverFailed{{}, generation_});
}

}  // namespace hostagent
