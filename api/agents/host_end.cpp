#include "api/agents/host_end.h"

#include <algorithm>
#include <utility>

#include "shared/archive.h"
#include "shared/log.h"

namespace agents {

using shared::Error;
using shared::ErrorCode;
using shared::Result;

namespace {
/// Messages taken under one hold of the Monitor, so that other threads get it in between.
constexpr int kMessagesPerTurn = 64;

std::uint64_t* call_of(shared::ToAgent& request) {
    if (auto* probe = std::get_if<shared::Probe>(&request)) return &probe->call;
    if (auto* end = std::get_if<shared::EndKernel>(&request)) return &end->call;
    if (auto* browse = std::get_if<shared::Browse>(&request)) return &browse->call;
    if (auto* ping = std::get_if<shared::Ping>(&request)) return &ping->call;
    if (auto* fault = std::get_if<shared::Fault>(&request)) return &fault->call;
    return nullptr;
}
}  // namespace

HostEnd::HostEnd(std::string name, Monitor& monitor, Loop& loop, Events events)
    : name_(std::move(name)), monitor_(monitor), loop_(loop), events_(std::move(events)) {}

void HostEnd::take_channel(std::uint64_t generation, shared::ChannelEnd channel) {
    if (generation <= generation_ && channel_) return;  // an offer that was overtaken
    drop_channel("the host's agent was started again");
    generation_ = generation;
    failure_.clear();
    channel_.emplace(std::move(channel));
    watch_ = loop_.watch(channel_->wake_fd(), [this] { service(); });
    shared::Configure first;
    first.known = report_;
    (void)send(first);
    for (auto& [id, pending] : calls_)
        if (auto unsent = std::exchange(pending.unsent, std::nullopt)) (void)send(*unsent);
    // What came before the watch existed is found by the first look.
    loop_.post([this] { service(); });
    events_.channel_up(*this);
}

void HostEnd::lose_channel(std::uint64_t generation, const std::string& cause, bool failed) {
    if (generation < generation_) return;
    failure_ = failed ? cause : std::string();
    drop_channel(cause);
    if (failed) fail_calls(cause, true);
}

void HostEnd::drop_channel(const std::string& cause) {
    if (!channel_) return;
    watch_ = {};
    channel_.reset();
    fail_calls(cause, false);
    boots_ = 0;
    waiting_boots_.clear();
    attachments_.clear();
    events_.channel_down(*this);
}

void HostEnd::fail_calls(const std::string& cause, bool unsent_too) {
    std::vector<CallDone> ended;
    for (auto at = calls_.begin(); at != calls_.end();) {
        if (at->second.unsent && !unsent_too) {
            ++at;
            continue;
        }
        ended.push_back(std::move(at->second.done));
        at = calls_.erase(at);
    }
    for (auto& done : ended)
        done(Error{ErrorCode::unavailable, "the agent of " + name_ + " ended: " + cause, name_});
}

bool HostEnd::call(shared::ToAgent request, CallDone done, std::uint64_t& call) {
    if (calls_.size() >= kCallsInFlight) return false;
    call = next_call_++;
    std::uint64_t* id = call_of(request);
    ALBEDO_CHECK(id != nullptr);
    *id = call;
    Call& pending = calls_[call];
    pending.done = std::move(done);
    if (!channel_)
        pending.unsent = std::move(request);
    else
        (void)send(request);  // a channel that fails ends the call with it
    return true;
}

void HostEnd::cancel(std::uint64_t call) {
    const auto found = calls_.find(call);
    if (found == calls_.end()) return;
    const bool sent = !found->second.unsent;
    calls_.erase(found);
    if (sent && channel_) (void)send(shared::Cancel{call});
}

std::uint32_t HostEnd::attach(Attachment& attachment) {
    if (!channel_) return 0;
    const std::uint32_t kernel = next_kernel_++;
    if (next_kernel_ == 0) next_kernel_ = 1;  // 0 is the bridge's own
    attachments_[kernel] = &attachment;
    return kernel;
}

void HostEnd::detach(std::uint32_t kernel) {
    attachments_.erase(kernel);
}

Result<void> HostEnd::send(const shared::ToAgent& message) {
    if (!channel_) return Error{ErrorCode::unavailable, "no agent for " + name_ + " now", name_};
    if (channel_->queued_bytes() > kQueuedBytes)
        return Error{ErrorCode::overloaded, "the agent of " + name_ + " does not read", name_};
    auto sent = channel_->send(shared::encode(message));
    if (!sent && sent.error().code == ErrorCode::protocol) {
        // Not from here: the caller is in the middle of something.
        loop_.post([this] {
            auto lock = monitor_.lock();
            if (!channel_) return;
            drop_channel("it broke the rules of the channel");
            events_.broken(*this);
        });
    } else if (channel_->queued_bytes() > 0 && !std::exchange(service_posted_, true)) {
        loop_.post([this] { service(); });  // the ring is full: look again when there is room
    }
    return sent;
}

void HostEnd::service() {
    auto lock = monitor_.lock();
    if (!channel_) return;
    service_posted_ = false;
    channel_->woken();
    for (int taken = 0;;) {
        auto bytes = channel_->receive();
        std::optional<shared::FromAgent> message;
        if (bytes && *bytes) {
            auto decoded = shared::decode<shared::FromAgent>(**bytes);
            if (decoded)
                message.emplace(std::move(*decoded));
            else
                bytes = decoded.error();
        }
        if (!bytes) {
            shared::log_error("channel broken", {{"host", name_}, {"why", bytes.error().message}});
            drop_channel("it broke the rules of the channel");
            events_.broken(*this);
            return;
        }
        if (message) {
            take(std::move(*message));
            if (!channel_) return;
            if (++taken < kMessagesPerTurn) continue;
            taken = 0;
            lock.unlock();
            lock.lock();
            if (!channel_) return;
            continue;
        }
        if (!channel_->flush()) {
            drop_channel("it broke the rules of the channel");
            events_.broken(*this);
            return;
        }
        if (channel_->prepare_to_sleep()) return;
    }
}

void HostEnd::take(shared::FromAgent message) {
    if (auto* frame = std::get_if<shared::KernelFrame>(&message)) {
        const auto found = attachments_.find(frame->kernel);
        if (found != attachments_.end()) found->second->frame(std::move(*frame));
    } else if (auto* answer = std::get_if<shared::Answer>(&message)) {
        if (answer->report.state != shared::HostState::unknown) {
            report_ = answer->report;
            events_.reported(*this);
        }
        const auto found = calls_.find(answer->call);
        if (found == calls_.end()) return;  // its caller gave up
        CallDone done = std::move(found->second.done);
        calls_.erase(found);
        done(std::move(*answer));
    } else if (auto* changed = std::get_if<shared::HostChanged>(&message)) {
        report_ = std::move(changed->report);
        events_.reported(*this);
    } else if (auto* opened = std::get_if<shared::KernelOpened>(&message)) {
        const auto found = attachments_.find(opened->kernel);
        if (found != attachments_.end()) found->second->opened(opened->run);
    } else if (auto* closed = std::get_if<shared::KernelClosed>(&message)) {
        const auto found = attachments_.find(closed->kernel);
        if (found == attachments_.end()) return;
        Attachment* attachment = found->second;
        attachments_.erase(found);
        attachment->closed(closed->reason, closed->detail);
    }
}

void HostEnd::acquire_boot(std::function<bool()> begin) {
    if (boots_ >= kBootsAtOnce) {
        waiting_boots_.push_back(std::move(begin));
        return;
    }
    if (begin()) ++boots_;
}

void HostEnd::release_boot() {
    if (boots_ > 0) --boots_;
    while (boots_ < kBootsAtOnce && !waiting_boots_.empty()) {
        auto begin = std::move(waiting_boots_.front());
        waiting_boots_.pop_front();
        if (begin()) ++boots_;
    }
}

}  // namespace agents
