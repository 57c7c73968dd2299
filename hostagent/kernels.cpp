#include "hostagent/kernels.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <utility>

#include "hostagent/bridge_words.h"
#include "hostagent/browse.h"
#include "hostagent/probe.h"
#include "shared/ids.h"
#include "shared/log.h"

namespace hostagent {

using shared::CloseReason;
using shared::Frame;
using shared::FrameKind;
using shared::HostState;
using shared::HostStep;
using shared::KernelClosed;
using shared::KernelFrame;
using shared::KernelOpened;
using shared::Monotonic;

namespace {

CloseReason reason_of(HostState state) {
    switch (state) {
        case HostState::needs_auth:
            return CloseReason::needs_auth;
        case HostState::unsupported:
            return CloseReason::unsupported;
        default:
            return CloseReason::unreachable;
    }
}

CloseReason reason_of(shared::ErrorCode code) {
    switch (code) {
        case shared::ErrorCode::needs_auth:
            return CloseReason::needs_auth;
        case shared::ErrorCode::unsupported:
            return CloseReason::unsupported;
        default:
            return CloseReason::unreachable;
    }
}

Frame agent_frame(std::uint32_t kernel, FrameKind kind, std::string payload) {
    Frame frame;
    frame.kernel = kernel;
    frame.kind = static_cast<std::uint8_t>(kind);
    frame.payload = std::move(payload);
    return frame;
}

Words bridge_words(const Place& place, const std::string& nonce) {
    return script(place.python, place.home, place.folder, "albedo_bridge.py", {nonce});
}

/// The kinds that belong to the link between api and keeper.
bool is_link(std::uint8_t kind) {
    return kind >= static_cast<std::uint8_t>(FrameKind::control) &&
           kind <= static_cast<std::uint8_t>(FrameKind::query);
}

}  // namespace

Kernels::Kernels(asio::any_io_executor executor, Host& host, Events events)
    : executor_(executor), host_(host), events_(std::move(events)), alive_(executor) {}

// --- what the api asks --------------------------------------------------------------------------

void Kernels::open(shared::OpenKernel open) {
    Kernel& state = kernels_[open.kernel];
    state = Kernel{Phase::waiting, open.start, std::move(open.request)};
    if (bridge_)
        ask_for(open.kernel, state);
    else
        want_bridge();
}

void Kernels::ask_for(std::uint32_t kernel, Kernel& state) {
    state.phase = Phase::asked;
    bridge_->send(agent_frame(kernel, state.start ? FrameKind::start : FrameKind::open,
                              std::exchange(state.request, {})));
}

void Kernels::frame(const KernelFrame& from) {
    const auto found = kernels_.find(from.kernel);
    if (found == kernels_.end() || found->second.phase != Phase::open || !is_link(from.kind))
        return;
    if (bridge_->send(Frame{from.kernel, from.kind, from.seq, from.ack, from.payload})) return;
    send_close(from.kernel);
    closed(from.kernel, CloseReason::overflow, "the kernel does not read what is sent to it");
}

void Kernels::close(std::uint32_t kernel) {
    const auto found = kernels_.find(kernel);
    if (found == kernels_.end()) return;
    if (bridge_ && found->second.phase != Phase::waiting) send_close(kernel);
    kernels_.erase(found);
}

void Kernels::close_all() {
    for (const auto& [kernel, state] : kernels_)
        if (bridge_ && state.phase != Phase::waiting) send_close(kernel);
    kernels_.clear();
    flush();
}

void Kernels::send_close(std::uint32_t kernel) {
    bridge_->send_always(agent_frame(kernel, FrameKind::close, {}));
}

bool Kernels::ask(const std::string& request, Answered answered) {
    if (!bridge_) return false;
    const std::uint64_t id = next_ask_++;
    auto call = browse_call(request, id);
    if (!call) return false;
    asked_[id] = std::move(answered);
    bridge_->send(agent_frame(0, FrameKind::call, std::move(*call)));
    return true;
}

void Kernels::flush() {
    if (bridge_) bridge_->flush();
}

void Kernels::resume() {
    if (bridge_) bridge_->resume();
}

void Kernels::stop() {
    if (bridge_) bridge_->end();
}

// --- the bridge ---------------------------------------------------------------------------------

void Kernels::want_bridge() {
    if (std::exchange(opening_, true)) return;
    asio::co_spawn(executor_, open_bridge(), asio::detached);
}

asio::awaitable<void> Kernels::open_bridge() {
    auto failure = co_await try_bridge();
    host_.machine().step(HostStep::none);
    opening_ = false;
    if (!failure) co_return;
    events_.record("bridge cannot be opened");
    for (auto at = kernels_.begin(); at != kernels_.end();) {
        const std::uint32_t kernel = at->first;
        const bool waits = at->second.phase == Phase::waiting;
        ++at;
        if (waits) closed(kernel, failure->reason, failure->detail);
    }
}

asio::awaitable<std::optional<Kernels::Failure>> Kernels::try_bridge() {
    HostMachine& machine = host_.machine();
    // Nobody asked for this by hand: wrong keys tried again and again lock accounts.
    if (machine.quiet() && !host_.transport().sign_in_changed())
        co_return Failure{CloseReason::needs_auth, host_.report().detail};
    std::optional<Place> place = host_.remembered();
    for (bool again = false;; again = true) {
        if (!place) {
            auto prepared = co_await host_.prepare();
            if (!prepared) {
                const auto& error = prepared.error();
                co_return Failure{reason_of(error.code), error.message};
            }
            place = *prepared;
        }
        machine.step(HostStep::starting);
        bool not_there = false;
        auto failure = co_await launch_bridge(*place, not_there);
        if (!failure || !not_there || again) co_return failure;
        host_.forget_place();  // the files or the interpreter are gone: look anew, once
        place.reset();
    }
}

asio::awaitable<std::optional<Kernels::Failure>> Kernels::launch_bridge(const Place& place,
                                                                        bool& not_there) {
    const auto deadline = Monotonic::now() + kBridgeDeadline;
    for (;;) {
        const std::string nonce = shared::random_hex(16);
        Words words = bridge_words(place, nonce);
        const Launch launch = co_await host_.transport().launch(std::move(words), Way::usual);
        host_.machine().set_control_path(host_.transport().control_path());
        BridgeLink::Events events;
        events.frame = [this](Frame frame) { take(std::move(frame)); };
        events.full = events_.full;
        events.ended = [this](const std::string& detail) { bridge_down(detail); };
        auto result = co_await BridgeLink::open(launch.argv, "albedo-bridge " + nonce, deadline,
                                                std::move(events));
        if (auto* opened = std::get_if<BridgeLink::Opened>(&result)) {
            auto facts = read_ready(opened->ready);
            if (!facts) {
                opened->link->end();
                not_there = true;  // another version in that folder: staged anew
                co_return Failure{CloseReason::unsupported, facts.error().message};
            }
            asio::co_spawn(executor_, host_.transport().worked(), asio::detached);
            host_.served(*facts);
            bridge_up(std::move(*opened));
            co_return std::nullopt;
        }
        const Outcome& outcome = std::get<Outcome>(result);
        if (Monotonic::now() < deadline && host_.transport().another_way(launch, outcome)) continue;
        if (const auto failure = host_.transport().failure(outcome)) {
            host_.machine().failed(*failure, Monotonic::now());
            co_return Failure{reason_of(failure->state), failure->detail};
        }
        if (outcome.status.signalled || outcome.timed_out)
            co_return Failure{CloseReason::unreachable,
                              "the bridge ended before it was ready: " + outcome.status.text()};
        not_there = true;
        co_return Failure{CloseReason::unsupported,
                          "the bridge does not start there: " + last_words(outcome.words + "\n")};
    }
}

void Kernels::bridge_up(BridgeLink::Opened opened) {
    bridge_ = std::move(opened.link);
    last_frame_ = Monotonic::now();
    events_.record("bridge opened");
    shared::log_info("bridge opened", {{"pid", std::to_string(bridge_->pid())}});
    for (auto& [kernel, state] : kernels_)
        if (state.phase == Phase::waiting) ask_for(kernel, state);
    flush();
}

void Kernels::bridge_down(const std::string& detail) {
    if (!bridge_) return;
    events_.record("bridge ended");
    shared::log_warning("bridge ended", {{"why", detail}});
    bridge_->end();
    bridge_.reset();
    for (auto& [id, answered] : std::exchange(asked_, {})) answered(std::nullopt);
    auto dropped = std::exchange(kernels_, {});
    for (const auto& [kernel, state] : dropped)
        events_.tell(KernelClosed{kernel, CloseReason::dropped, detail});
}

void Kernels::take(Frame frame) {
    last_frame_ = Monotonic::now();
    if (frame.kernel == 0) {
        if (frame.kind != static_cast<std::uint8_t>(FrameKind::answer)) return;
        const auto found = asked_.find(frame.seq);
        if (found == asked_.end()) return;
        const Answered answered = std::move(found->second);
        asked_.erase(found);
        answered(std::move(frame.payload));
        return;
    }
    const auto found = kernels_.find(frame.kernel);
    if (found == kernels_.end() || found->second.phase == Phase::waiting) return;
    switch (static_cast<FrameKind>(frame.kind)) {
        case FrameKind::opened:
            found->second.phase = Phase::open;
            events_.tell(KernelOpened{frame.kernel, read_opened(frame.payload)});
            return;
        case FrameKind::closed: {
            const Closed why = read_closed(frame.payload);
            closed(frame.kernel, why.reason, why.detail);
            return;
        }
        default:
            if (found->second.phase == Phase::open && is_link(frame.kind))
                events_.tell(KernelFrame{frame.kernel, frame.kind, frame.seq, frame.ack,
                                         std::move(frame.payload)});
    }
}

void Kernels::closed(std::uint32_t kernel, CloseReason reason, const std::string& detail) {
    kernels_.erase(kernel);
    events_.tell(KernelClosed{kernel, reason, detail});
}

void Kernels::network_changed() {
    host_.machine().news();
    if (bridge_) asio::co_spawn(executor_, check_bridge(), asio::detached);
}

asio::awaitable<void> Kernels::check_bridge() {
    const auto asked_at = Monotonic::now();
    const auto link = bridge_;
    ask(R"({"op":"ping"})", [this](const std::optional<std::string>&) { alive_.notify(); });
    flush();
    co_await wait_for(alive_, asked_at + kAliveDeadline,
                      [&] { return last_frame_ > asked_at || bridge_ != link; });
    if (bridge_ != link || last_frame_ > asked_at) co_return;
    bridge_down("no answer since the network changed");
    co_await host_.transport().abandon();
}

}  // namespace hostagent
