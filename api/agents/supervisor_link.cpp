#include "api/agents/supervisor_link.h"

#include <poll.h>

#include <cerrno>
#include <condition_variable>
#include <utility>

#include "shared/archive.h"
#include "shared/log.h"

namespace agents {

using shared::Error;
using shared::ErrorCode;
using shared::Result;

namespace {
constexpr shared::Milliseconds kSendAgain{20};

Error broken(const std::string& what) {
    return {ErrorCode::protocol, "control socket: " + what, {}};
}
}  // namespace

/// One thread's question; lives on that thread's stack while it is listed.
struct SupervisorLink::Question {
    std::condition_variable answered;
    bool complete = false;
    std::vector<shared::ProcessInfo> processes;
    std::vector<std::pair<std::int64_t, std::string>> events;
    shared::Steered steered;
};

SupervisorLink::SupervisorLink(Loop& loop, shared::UniqueFd control)
    : loop_(loop), control_(std::move(control)) {}

Result<WelcomeMessage> SupervisorLink::wait_welcome(shared::Milliseconds within) {
    pollfd ready{control_.fd(), POLLIN, 0};
    int count;
    do {
        count = ::poll(&ready, 1, static_cast<int>(within.count()));
    } while (count < 0 && errno == EINTR);
    if (count <= 0) return Error{ErrorCode::timed_out, "no welcome from the supervisor", {}};
    auto message = control_.receive();
    if (!message) return message.error();
    if (!*message || (*message)->bytes.empty()) return broken("closed before the welcome");
    auto decoded = shared::decode<shared::ToChild>((*message)->bytes);
    if (!decoded) return decoded.error();
    auto* welcome = std::get_if<shared::Welcome>(&*decoded);
    if (welcome == nullptr) return broken("the first message is no welcome");
    auto& descriptors = (*message)->descriptors;
    if (descriptors.size() != 2) return broken("the welcome came without its descriptors");
    return WelcomeMessage{std::move(*welcome), std::move(descriptors[0]),
                          std::move(descriptors[1])};
}

void SupervisorLink::start(Handler handler) {
    handler_ = std::move(handler);
    watch_ = loop_.watch(control_.fd(), [this] { readable(); });
}

void SupervisorLink::readable() {
    for (;;) {
        auto message = [this] {
            std::lock_guard lock(mutex_);
            return control_.receive();
        }();
        if (!message && message.error().code == ErrorCode::protocol) {
            shared::log_error("control message refused", {{"why", message.error().message}});
            continue;
        }
        if (!message || (*message && (*message)->bytes.empty())) {
            watch_ = {};
            return handler_.end();
        }
        if (!*message) return;
        auto decoded = shared::decode<shared::ToChild>((*message)->bytes);
        if (decoded)
            take(std::move(*decoded), std::move((*message)->descriptors),
                 (*message)->descriptors_lost);
        else
            shared::log_error("control message refused", {{"why", decoded.error().message}});
    }
}

void SupervisorLink::take(shared::ToChild message, std::vector<shared::UniqueFd> descriptors,
                          bool lost) {
    if (auto* offer = std::get_if<shared::ChannelOffer>(&message)) {
        if (lost || descriptors.size() != 3)
            return send(shared::HandoverFailed{offer->host, offer->generation});
        return handler_.offer(std::move(*offer), std::move(descriptors));
    }
    if (auto* down = std::get_if<shared::AgentDown>(&message))
        return handler_.agent_down(std::move(*down));
    if (std::holds_alternative<shared::Drain>(message)) return handler_.drain();

    std::lock_guard lock(mutex_);
    const auto question = [&](std::uint64_t call) -> Question* {
        const auto found = questions_.find(call);
        return found == questions_.end() ? nullptr : found->second;
    };
    const auto finish = [](Question* waiting) {
        waiting->complete = true;
        waiting->answered.notify_one();
    };
    if (auto* part = std::get_if<shared::Processes>(&message)) {
        if (Question* waiting = question(part->call)) {
            for (auto& process : part->processes) waiting->processes.push_back(std::move(process));
            if (!part->more) finish(waiting);
        }
    } else if (auto* events = std::get_if<shared::Flight>(&message)) {
        if (Question* waiting = question(events->call)) {
            const std::size_t count = std::min(events->wall_ms.size(), events->texts.size());
            for (std::size_t i = 0; i < count; ++i)
                waiting->events.emplace_back(events->wall_ms[i], std::move(events->texts[i]));
            if (!events->more) finish(waiting);
        }
    } else if (auto* steered = std::get_if<shared::Steered>(&message)) {
        if (Question* waiting = question(steered->call)) {
            waiting->steered = std::move(*steered);
            finish(waiting);
        }
    }
}

void SupervisorLink::send(const shared::FromChild& message) {
    std::lock_guard lock(mutex_);
    if (auto sent = control_.send(shared::encode(message)); !sent)
        shared::log_error("control message not sent", {{"why", sent.error().message}});
    plan_flush();
}

/// The lock is held. What the socket does not take now is tried again soon.
void SupervisorLink::plan_flush() {
    if (control_.queued() == 0 || std::exchange(flush_planned_, true)) return;
    loop_.at(shared::Monotonic::now() + kSendAgain, [this] {
        std::lock_guard lock(mutex_);
        flush_planned_ = false;
        if (control_.flush()) plan_flush();  // else the peer is gone: the loop sees its end
    });
}

template <class Ask>
Result<void> SupervisorLink::ask(Ask message, Question& question, shared::TimePoint deadline) {
    {
        std::lock_guard lock(mutex_);
        message.call = next_call_++;
        questions_[message.call] = &question;
    }
    send(message);
    std::unique_lock lock(mutex_);
    const bool complete =
        question.answered.wait_until(lock, deadline, [&] { return question.complete; });
    questions_.erase(message.call);
    if (!complete) return Error{ErrorCode::timed_out, "the supervisor did not answer", {}};
    return {};
}

Result<std::vector<shared::ProcessInfo>> SupervisorLink::ask_processes(shared::TimePoint deadline) {
    Question question;
    if (auto asked = ask(shared::AskProcesses{}, question, deadline); !asked) return asked.error();
    return std::move(question.processes);
}

Result<std::vector<std::pair<std::int64_t, std::string>>> SupervisorLink::ask_flight(
    const std::string& host, shared::TimePoint deadline) {
    Question question;
    shared::AskFlight message;
    message.host = host;
    if (auto asked = ask(std::move(message), question, deadline); !asked) return asked.error();
    return std::move(question.events);
}

Result<shared::Steered> SupervisorLink::steer(const std::string& host, shared::Steering steering,
                                              shared::TimePoint deadline) {
    Question question;
    shared::SteerHost message;
    message.host = host;
    message.steering = steering;
    if (auto asked = ask(std::move(message), question, deadline); !asked) return asked.error();
    return std::move(question.steered);
}

}  // namespace agents
