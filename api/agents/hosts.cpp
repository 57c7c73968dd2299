#include "api/agents/hosts.h"

#include <utility>

#include "shared/log.h"

namespace agents {

using shared::Error;
using shared::ErrorCode;
using shared::Result;

Hosts::Hosts(Monitor& monitor, Loop& loop, SupervisorLink& supervisor, Saver save)
    : monitor_(monitor), loop_(loop), supervisor_(supervisor), save_(std::move(save)) {}

HostEnd& Hosts::make(const std::string& host) {
    Entry& entry = hosts_[host];
    if (entry.end) return *entry.end;
    HostEnd::Events events;
    events.channel_up = [this](HostEnd& end) {
        if (listener_ != nullptr) listener_->channel_up(end);
    };
    events.channel_down = [this](HostEnd& end) {
        if (listener_ != nullptr) listener_->channel_down(end);
    };
    events.reported = [this](HostEnd& end) {
        Entry& reported = hosts_[end.name()];
        const auto was = std::exchange(reported.last, end.report().state);
        if (save_) save_(end.name(), end.report());
        if (listener_ != nullptr) listener_->host_reported(end, was);
    };
    events.broken = [this](HostEnd& end) {
        supervisor_.send(shared::SteerHost{0, end.name(), shared::Steering::restart});
    };
    entry.end = std::make_unique<HostEnd>(host, monitor_, loop_, std::move(events));
    return *entry.end;
}

void Hosts::remember(const std::string& host, shared::HostReport report) {
    report.step = shared::HostStep::none;
    HostEnd& end = make(host);
    hosts_[host].last = report.state;
    end.set_known(std::move(report));
}

void Hosts::take_offer(shared::ChannelOffer offer, std::vector<shared::UniqueFd> descriptors) {
    auto channel = shared::ChannelEnd::attach(
        {std::move(descriptors[0]), std::move(descriptors[1]), std::move(descriptors[2])},
        shared::ChannelSide::api);
    if (!channel) {
        shared::log_error("channel refused",
                          {{"host", offer.host}, {"why", channel.error().message}});
        supervisor_.send(shared::HandoverFailed{offer.host, offer.generation});
        return;
    }
    auto lock = monitor_.lock();
    HostEnd& end = make(offer.host);
    hosts_[offer.host].wanted = true;
    end.take_channel(offer.generation, std::move(*channel));
}

void Hosts::agent_down(const shared::AgentDown& down) {
    auto lock = monitor_.lock();
    HostEnd& end = make(down.host);
    if (down.failed) hosts_[down.host].wanted = false;  // the next need asks again
    end.lose_channel(down.generation, down.cause, down.failed);
    call_ended_.notify_all();
}

HostEnd* Hosts::need(const Monitor::Lock&, const std::string& host) {
    const auto found = hosts_.find(host);
    if (found == hosts_.end() && hosts_.size() >= kMaxHosts) return nullptr;
    HostEnd& end = make(host);
    Entry& entry = hosts_[host];
    if (!std::exchange(entry.wanted, true)) supervisor_.send(shared::WantHost{host});
    return &end;
}

HostEnd* Hosts::find(const Monitor::Lock&, const std::string& host) {
    const auto found = hosts_.find(host);
    return found == hosts_.end() ? nullptr : found->second.end.get();
}

std::vector<std::string> Hosts::names(const Monitor::Lock&) const {
    std::vector<std::string> names;
    for (const auto& [name, entry] : hosts_) names.push_back(name);
    return names;
}

Result<shared::Answer> Hosts::call(const std::string& host, shared::ToAgent request,
                                   shared::TimePoint deadline, WhenFull when_full) {
    const auto begun = shared::Monotonic::now();
    auto answer = ask(host, std::move(request), deadline, when_full);
    if (metrics_ != nullptr) {
        const char* outcome = answer ? "ok" : shared::to_string(answer.error().code);
        metrics_->add(metrics::Count::host_calls, {host, outcome});
        metrics_->observe(metrics::Time::host_calls, {host}, shared::Monotonic::now() - begun);
    }
    return answer;
}

Result<shared::Answer> Hosts::ask(const std::string& host, shared::ToAgent request,
                                  shared::TimePoint deadline, WhenFull when_full) {
    std::visit(
        [&](auto& message) {
            if constexpr (requires { message.deadline_ms; })
                message.deadline_ms = shared::monotonic_ms(deadline);
        },
        request);
    struct Wait {
        std::condition_variable answered;
        std::optional<Result<shared::Answer>> result;
    };
    auto wait = std::make_shared<Wait>();
    auto lock = monitor_.lock();
    HostEnd* end = need(lock, host);
    if (end == nullptr) return Error{ErrorCode::overloaded, "too many hosts", host};
    std::uint64_t call = 0;
    const auto done = [this, wait](Result<shared::Answer> result) {
        wait->result.emplace(std::move(result));
        wait->answered.notify_one();
        call_ended_.notify_all();
    };
    while (!end->call(request, done, call)) {
        if (when_full == WhenFull::refuse)
            return Error{ErrorCode::overloaded, "too many requests to " + host + " at once", host};
        if (call_ended_.wait_until(lock, deadline) == std::cv_status::timeout &&
            end->calls_in_flight() >= kCallsInFlight)
            return Error{ErrorCode::timed_out, "waited in line for " + host, host};
    }
    if (!wait->answered.wait_until(lock, deadline, [&] { return wait->result.has_value(); })) {
        end->cancel(call);
        call_ended_.notify_all();
        const std::string why = end->failure().empty() ? "no answer in time from the agent of "
                                                       : end->failure() + ": agent of ";
        return Error{ErrorCode::timed_out, why + host, host};
    }
    Result<shared::Answer> result = std::move(*wait->result);
    if (result && !result->ok && !std::holds_alternative<shared::Probe>(request))
        return Error{result->code, result->message, host};
    return result;
}

Result<shared::HostReport> Hosts::probe(const std::string& host, bool fresh,
                                        shared::TimePoint deadline, WhenFull when_full) {
    shared::Probe request;
    request.fresh = fresh;
    auto answer = call(host, request, deadline, when_full);
    if (!answer) return answer.error();
    if (answer->report.state == shared::HostState::unknown)
        return Error{answer->ok ? ErrorCode::protocol : answer->code, answer->message, host};
    return answer->report;
}

}  // namespace agents
