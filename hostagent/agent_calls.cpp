// The agent's requests and their answers: each is answered once, to the channel it came from,
// unless its caller went away before.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <csignal>
#include <nlohmann/json.hpp>

#include "hostagent/agent.h"
#include "hostagent/browse.h"
#include "hostagent/ladder.h"
#include "shared/ids.h"
#include "shared/log.h"

namespace hostagent {

using shared::Answer;
using shared::Counter;
using shared::Error;
using shared::ErrorCode;
using shared::HostState;
using shared::Milliseconds;
using shared::Monotonic;
using shared::Result;
using shared::TimePoint;

namespace {

TimePoint sooner(std::int64_t deadline_ms, Milliseconds limit) {
    const TimePoint own = Monotonic::now() + limit;
    return deadline_ms > 0 ? std::min(own, shared::from_monotonic_ms(deadline_ms)) : own;
}

std::string new_marker() {
    return "albedo-" + shared::random_hex(12);
}

}  // namespace

void Agent::take(shared::ToAgent message) {
    if (const auto* frame = std::get_if<shared::KernelFrame>(&message)) {
        kernels_->frame(*frame);
    } else if (const auto* configure = std::get_if<shared::Configure>(&message)) {
        host_->configure(configure->known, configure->python);
    } else if (auto* open = std::get_if<shared::OpenKernel>(&message)) {
        kernels_->open(std::move(*open));
    } else if (const auto* close = std::get_if<shared::CloseKernel>(&message)) {
        kernels_->close(close->kernel);
    } else if (const auto* wanted = std::get_if<shared::Probe>(&message)) {
        asio::co_spawn(loop_, probe(begin(wanted->call), wanted->fresh), asio::detached);
    } else if (auto* end = std::get_if<shared::EndKernel>(&message)) {
        const Caller caller = begin(end->call);
        asio::co_spawn(loop_, end_kernel(caller, std::move(*end)), asio::detached);
    } else if (auto* question = std::get_if<shared::Browse>(&message)) {
        const Caller caller = begin(question->call);
        browse(caller, std::move(*question));
    } else if (const auto* cancel = std::get_if<shared::Cancel>(&message)) {
        calls_.erase(cancel->call);
    } else if (const auto* asked = std::get_if<shared::Ping>(&message)) {
        ping(begin(asked->call));
    } else if (const auto* asked_for = std::get_if<shared::Fault>(&message)) {
        fault(begin(asked_for->call), asked_for->kind);
    }
}

Agent::Caller Agent::begin(std::uint64_t call) {
    calls_.insert(call);
    if (page_) page_->add(Counter::calls);
    return {generation_, call};
}

void Agent::answer(Caller caller, Answer answer) {
    if (caller.generation != generation_ || calls_.erase(caller.call) == 0) return;
    answer.call = caller.call;
    tell(answer);
}

void Agent::answer_json(Caller caller, Result<std::string> json) {
    Answer reply;
    reply.ok = json.ok();
    if (json) {
        reply.json = std::move(*json);
    } else {
        reply.code = json.error().code;
        reply.message = json.error().message;
        reply.report = host_->report();
    }
    answer(caller, std::move(reply));
}

void Agent::answer_failure(Caller caller, const Verdict& verdict) {
    // A single command may fail beside a bridge that works: then the host is no worse for it.
    if (!kernels_->up()) host_->machine().failed(verdict, Monotonic::now());
    Answer reply;
    reply.code = code_of(verdict.state);
    reply.message = verdict.detail;
    reply.report = host_->report();
    reply.report.state = verdict.state;
    reply.report.detail = verdict.detail;
    answer(caller, std::move(reply));
}

asio::awaitable<void> Agent::probe(Caller caller, bool fresh) {
    Answer reply;
    // A bridge that is there has said all that a probe would ask.
    if (kernels_->up() && !fresh)
        reply.report = host_->report();
    else
        reply.report = co_await host_->probe(fresh);
    reply.ok = true;
    answer(caller, std::move(reply));
}

// --- questions about folders --------------------------------------------------------------------

void Agent::browse(Caller caller, shared::Browse browse) {
    if (!browse.fresh && kernels_->up()) {
        const std::string request = browse.request;
        const bool asked =
            kernels_->ask(request, [this, caller, browse](std::optional<std::string> said) {
                if (said)
                    answer_json(caller, std::move(*said));
                else  // the bridge ended first; asking twice does no harm
                    asio::co_spawn(loop_, browse_alone(caller, browse), asio::detached);
            });
        if (asked) return;
    }
    if (browse.fresh)
        asio::co_spawn(loop_, browse_now(caller, std::move(browse)), asio::detached);
    else
        asio::co_spawn(loop_, browse_alone(caller, std::move(browse)), asio::detached);
}

/// The bundle's place, remembered or made; nothing if the caller was told why not.
asio::awaitable<std::optional<Place>> Agent::place_for(Caller caller) {
    if (const auto place = host_->place()) co_return place;
    auto prepared = co_await host_->prepare();
    if (prepared) co_return *prepared;
    answer_json(caller, prepared.error());
    co_return std::nullopt;
}

asio::awaitable<void> Agent::browse_alone(Caller caller, shared::Browse browse) {
    const auto place = co_await place_for(caller);
    if (!place) co_return;
    Errand errand;
    errand.marker = new_marker();
    errand.words = loader(place->python, errand.marker);
    errand.input = browse_input(place->folder, browse.request);
    errand.deadline = sooner(browse.deadline_ms, kBrowseDeadline);
    const Outcome outcome = co_await host_->run(std::move(errand));
    if (const auto failure = host_->transport().failure(outcome); failure && !outcome.clean())
        co_return answer_failure(caller, *failure);
    auto json = read_browse(outcome.answer, outcome.words);
    if (!json) host_->forget_place();  // perhaps the bundle is gone: the next question stages it
    answer_json(caller, std::move(json));
}

/// "Is it there now": one command, past all that is known and open.
asio::awaitable<void> Agent::browse_now(Caller caller, shared::Browse browse) {
    const auto place = host_->remembered();
    if (!place && !needs_no_bundle(browse.request)) {
        co_await browse_alone(caller, std::move(browse));
        co_return;
    }
    Errand errand;
    errand.marker = new_marker();
    errand.words = host_->loader_words(errand.marker);
    errand.input = browse_input(place ? place->folder : std::string(), browse.request);
    errand.deadline = sooner(browse.deadline_ms, kBrowseDeadline);
    errand.way = Way::fresh;
    const Outcome outcome = co_await host_->run(std::move(errand));
    if (!outcome.clean())
        if (const auto failure = host_->transport().failure(outcome))
            co_return answer_failure(caller, *failure);
    // It answered, whatever it was last believed to do.
    if (outcome.marked && host_->report().state != HostState::ready) host_->machine().news();
    answer_json(caller,
                read_browse(outcome.answer, outcome.words.empty() ? outcome.noise : outcome.words));
}

// --- the rest -----------------------------------------------------------------------------------

asio::awaitable<void> Agent::end_kernel(Caller caller, shared::EndKernel end) {
    for (bool again = false;; again = true) {
        std::optional<Place> place = host_->remembered();
        if (!place) place = co_await place_for(caller);
        if (!place) co_return;
        Errand errand;
        errand.marker = new_marker();
        errand.words = marked_script(place->python, place->home, place->folder, "albedo_signal.py",
                                     errand.marker);
        errand.input = ladder_request(end.run);
        errand.deadline = sooner(end.deadline_ms, kLadderDeadline);
        const Outcome outcome = co_await host_->run(std::move(errand));
        if (!outcome.clean())
            if (const auto failure = host_->transport().failure(outcome))
                co_return answer_failure(caller, *failure);
        if (!outcome.clean() && outcome.answer.empty() && !again) {
            host_->forget_place();  // no such file: staged anew, once
            continue;
        }
        co_return answer_json(caller, read_ladder(outcome.answer, outcome.words));
    }
}

void Agent::fault(Caller caller, shared::FaultKind kind) {
    const auto number = static_cast<std::size_t>(kind);
    if (number >= std::size(shared::kFaultNames))
        return answer_json(caller, Error{ErrorCode::invalid, "there is no such fault", {}});
    shared::log_warning("a fault was asked for", {{"kind", shared::kFaultNames[number]}});
    answer_json(caller, std::string("{}"));
    // After the answer has left.
    asio::post(loop_, [this, kind] {
        switch (kind) {
            case shared::FaultKind::ssh:
                asio::co_spawn(loop_, host_->transport().stop(), asio::detached);
                [[fallthrough]];
            case shared::FaultKind::bridge:
                kernels_->cut("a fault was asked for");
                return;
            case shared::FaultKind::stop:
                std::raise(SIGSTOP);
                return;
            case shared::FaultKind::spin:
                for (std::atomic<bool> never = false; !never;) {
                }
        }
    });
}

void Agent::ping(Caller caller) {
    const auto uptime = std::chrono::duration_cast<Milliseconds>(Monotonic::now() - started_);
    const nlohmann::json facts{{"pid", ::getpid()},
                               {"state", shared::to_string(host_->report().state)},
                               {"bridge_pid", kernels_->bridge_pid()},
                               {"kernels", kernels_->count()},
                               {"uptime_ms", uptime.count()}};
    answer_json(caller, facts.dump());
}

}  // namespace hostagent
