#include "tests/support/agent_driver.h"

#include <poll.h>
#include <signal.h>

#include <stdexcept>

#include "shared/archive.h"
#include "shared/clock.h"

namespace support {

using shared::Answer;
using shared::FromAgent;
using shared::Monotonic;

AgentDriver::AgentDriver(AgentPlace place, const shared::HostReport& known)
    : place_(std::move(place)) {
    auto [ours, theirs] = shared::ControlSocket::make_pair();
    control_.emplace(std::move(ours));
    shared::SpawnOptions options;
    options.argv = {ALBEDO_HOSTAGENT, place_.host};
    options.environment = place_.environment;
    options.descriptors = {{2, 2}, {theirs.fd(), shared::kControlFd}};
    auto child = shared::ChildProcess::spawn(options);
    if (!child) throw std::runtime_error(child.error().message);
    agent_.emplace(std::move(*child));
    shared::Welcome welcome;
    welcome.home = place_.home;
    welcome.host = place_.host;
    (void)control_->send(shared::encode(shared::ToChild(welcome)));
    for (const auto deadline = Monotonic::now() + std::chrono::seconds(10);;) {
        pollfd wait{control_->fd(), POLLIN, 0};
        ::poll(&wait, 1, 100);
        auto message = control_->receive();
        if (message && *message) break;  // Ready
        if (Monotonic::now() > deadline) throw std::runtime_error("the agent never said Ready");
    }
    new_generation();
    send(shared::Configure{known, {}});
}

void AgentDriver::new_generation() {
    auto pair = shared::create_channel();
    channel_.reset();
    auto end = shared::ChannelEnd::attach(std::move(pair.api), shared::ChannelSide::api);
    if (!end) throw std::runtime_error(end.error().message);
    channel_.emplace(std::move(*end));
    const shared::ToChild offer = shared::ChannelOffer{place_.host, ++generation_};
    (void)control_->send(shared::encode(offer), {pair.agent.memory.get(), pair.agent.own_wake.get(),
                                                 pair.agent.peer_wake.get()});
    kept_.clear();
}

bool AgentDriver::wait_end(int milliseconds) {
    pollfd wait{agent_->pidfd(), POLLIN, 0};
    ::poll(&wait, 1, milliseconds);
    return agent_->try_reap().has_value();
}

void AgentDriver::kill() {
    agent_->signal(SIGKILL);
    wait_end(2000);
}

bool AgentDriver::hang_up() {
    control_.reset();
    return wait_end(2000);
}

bool AgentDriver::drain() {
    (void)control_->send(shared::encode(shared::ToChild(shared::Drain{})));
    return wait_end(5000);
}

void AgentDriver::send(const shared::ToAgent& message) {
    if (auto sent = channel_->send(shared::encode(message)); !sent)
        throw std::runtime_error(sent.error().message);
}

void AgentDriver::pump(int milliseconds) {
    (void)channel_->flush();
    if (channel_->prepare_to_sleep()) {
        pollfd wait{channel_->wake_fd(), POLLIN, 0};
        ::poll(&wait, 1, milliseconds);
    }
    channel_->woken();
    for (;;) {
        auto bytes = channel_->receive();
        if (!bytes) throw std::runtime_error(bytes.error().message);
        if (!*bytes) return;
        auto message = shared::decode<FromAgent>(**bytes);
        if (!message) throw std::runtime_error(message.error().message);
        if (const auto* changed = std::get_if<shared::HostChanged>(&*message)) {
            report_ = changed->report;
            reported_.push_back(std::string(shared::to_string(report_.state)) + "/" +
                                shared::to_string(report_.step));
            continue;
        }
        kept_.push_back(std::move(*message));
    }
}

std::optional<FromAgent> AgentDriver::wait(const Wanted& wanted, int milliseconds) {
    const auto deadline = Monotonic::now() + std::chrono::milliseconds(milliseconds);
    for (;;) {
        for (auto at = kept_.begin(); at != kept_.end(); ++at) {
            if (!wanted(*at)) continue;
            FromAgent found = std::move(*at);
            kept_.erase(at);
            return found;
        }
        const auto left =
            std::chrono::duration_cast<shared::Milliseconds>(deadline - Monotonic::now());
        if (left.count() <= 0) return std::nullopt;
        pump(static_cast<int>(left.count()));
    }
}

Answer AgentDriver::answer_to(std::uint64_t call, int milliseconds) {
    auto message = wait(
        [call](const FromAgent& from) {
            const auto* answer = std::get_if<Answer>(&from);
            return answer && answer->call == call;
        },
        milliseconds);
    if (!message) throw std::runtime_error("no answer to call " + std::to_string(call));
    return std::get<Answer>(*message);
}

Answer AgentDriver::probe(bool fresh) {
    shared::Probe request;
    request.call = next_call();
    request.fresh = fresh;
    send(request);
    return answer_to(request.call);
}

Answer AgentDriver::browse(const std::string& question, bool fresh) {
    shared::Browse request;
    request.call = next_call();
    request.fresh = fresh;
    request.request = question;
    send(request);
    return answer_to(request.call);
}

Answer AgentDriver::end_kernel(const std::string& run) {
    shared::EndKernel request;
    request.call = next_call();
    request.run = run;
    send(request);
    return answer_to(request.call);
}

Answer AgentDriver::ping() {
    shared::Ping request;
    request.call = next_call();
    send(request);
    return answer_to(request.call);
}

}  // namespace support
