#include "hostagent/host.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <random>

#include "hostagent/bundle_image.h"
#include "hostagent/probe.h"
#include "shared/home.h"
#include "shared/ids.h"
#include "shared/log.h"

namespace hostagent {

using shared::Error;
using shared::ErrorCode;
using shared::HostReport;
using shared::HostState;
using shared::HostStep;
using shared::Milliseconds;
using shared::Monotonic;
using shared::Result;

namespace {

constexpr int kTurnedAwayTries = 4;  // many first connections at once are thinned out by sshd
constexpr Milliseconds kTurnedAwayWait{200};  // doubled each time, and as much again by chance

std::string new_marker() {
    return "albedo-" + shared::random_hex(12);
}

std::string short_digest() {
    return bundle_digest().substr(0, kDigestCharacters);
}

Error error_of(const Verdict& verdict) {
    return {code_of(verdict.state), verdict.detail, {}};
}

}  // namespace

ErrorCode code_of(HostState state) {
    switch (state) {
        case HostState::needs_auth:
            return ErrorCode::needs_auth;
        case HostState::unsupported:
            return ErrorCode::unsupported;
        default:
            return ErrorCode::unreachable;
    }
}

Host::Host(asio::any_io_executor executor, std::unique_ptr<Transport> transport,
           std::filesystem::path albedo_home, HostMachine::Told told)
    : executor_(executor),
      transport_(std::move(transport)),
      albedo_home_(std::move(albedo_home)),
      machine_(std::move(told)),
      slot_free_(executor),
      probed_(executor),
      prepared_event_(executor) {
    machine_.set_control_path(transport_->control_path());
}

void Host::configure(const HostReport& known, const std::string& chosen_python) {
    chosen_python_ = chosen_python;
    machine_.remember(known);
}

Words Host::loader_words(const std::string& marker) const {
    if (!chosen_python_.empty()) return loader(chosen_python_, marker);
    if (const auto& known = report(); !known.python.empty() && quote_word(known.python))
        return loader(transport_->python(known.python), marker);
    return transport_->find_python(marker);
}

Place Host::place_of(const HostReport& facts) const {
    Place place;
    place.python = chosen_python_.empty() ? transport_->python(facts.python) : chosen_python_;
    place.home = facts.home;
    place.folder = stage_plan(place).root + "/" + short_digest();
    return place;
}

StagePlan Host::stage_plan(const Place& place) const {
    if (transport_->is_local()) {
        const shared::HomeLayout layout(albedo_home_);
        return {layout.bundle_folder().native(), layout.run_folder().native(), short_digest()};
    }
    const std::string root = place.home + "/.albedo-remote";
    return {root, root + "/run", short_digest()};
}

std::optional<Place> Host::remembered() const {
    const HostReport& known = report();
    if (known.home.empty() || known.python.empty() || known.digest != bundle_digest())
        return std::nullopt;
    if (!quote_word(known.python)) return std::nullopt;
    return place_of(known);
}

void Host::forget_place() {
    proved_ = false;
    machine_.staged({});
    machine_.doubt();
}

void Host::served(const HostReport& facts) {
    proved_ = true;
    HostReport all = facts;
    all.digest = bundle_digest();
    all.detail = transport_->note();
    machine_.ready(all, Monotonic::now());
}

asio::awaitable<Outcome> Host::run(Errand errand) {
    Outcome outcome;
    Milliseconds wait = kTurnedAwayWait;
    const bool counted = errand.way == Way::usual;
    if (counted) {
        const bool free = co_await wait_for(slot_free_, errand.deadline,
                                            [this] { return running_ < kCommandsAtOnce; });
        if (!free) {
            outcome.words = "too many commands at once on this host";
            co_return outcome;
        }
        ++running_;
    }
    for (int tries = 1;; ++tries) {
        Launch launch = co_await transport_->launch(errand.words, errand.way);
        Command command{launch.argv, errand.marker, errand.input, errand.deadline};
        outcome = co_await run_command(std::move(command));
        machine_.set_control_path(transport_->control_path());
        if (outcome.marked) {
            asio::co_spawn(executor_, transport_->worked(), asio::detached);
            break;
        }
        if (Monotonic::now() + wait >= errand.deadline) break;
        if (transport_->another_way(launch, outcome)) continue;
        const bool turned_away = outcome.started && !outcome.status.clean() &&
                                 is_turned_away(outcome.words) && errand.way == Way::usual;
        if (!turned_away || tries >= kTurnedAwayTries) break;
        std::minstd_rand chance(std::random_device{}());
        asio::steady_timer pause(
            executor_, wait + Milliseconds(chance() % static_cast<unsigned>(wait.count())));
        co_await pause.async_wait(kByTuple);
        wait *= 2;
    }
    if (counted) {
        --running_;
        slot_free_.notify();
    }
    co_return outcome;
}

asio::awaitable<HostReport> Host::probe(bool fresh) {
    if (!fresh && machine_.fresh_enough(Monotonic::now())) co_return report();
    if (probing_) {
        while (probing_) co_await probed_.wait();
        co_return report();
    }
    probing_ = true;
    machine_.step(machine_.report().state == HostState::unknown ? HostStep::connecting
                                                                : HostStep::probing);
    const Verdict verdict = co_await ask();
    if (verdict.state != HostState::ready) machine_.failed(verdict, Monotonic::now());
    probing_ = false;
    if (!preparing_) machine_.step(HostStep::none);
    probed_.notify();
    co_return report();
}

/// Where the bundle would stand, before the host's home is known.
std::string Host::usual_folder() const {
    Place place;
    place.home = "~";
    return stage_plan(place).root + "/" + short_digest();
}

asio::awaitable<Verdict> Host::ask() {
    const std::string marker = new_marker();
    const bool chosen = !chosen_python_.empty();
    Errand errand;
    errand.marker = marker;
    errand.input = probe_input(usual_folder());
    errand.words = chosen ? loader(chosen_python_, marker) : transport_->find_python(marker);
    errand.deadline = Monotonic::now() + (chosen ? kProbeDeadline : kLoginDeadline);
    Outcome outcome = co_await run(errand);
    if (!outcome.marked && !chosen && !transport_->is_local()) {
        const auto failure = transport_->failure(outcome);
        // A way there that failed stays the verdict. A login shell that cannot start a command, or
        // never gets to it, costs its settings only.
        if (failure && !outcome.timed_out) co_return *failure;
        errand.words = loader("python3", marker);
        errand.deadline = Monotonic::now() + (kProbeDeadline - kLoginDeadline);
        Outcome plain = co_await run(errand);
        if (plain.marked || failure) {
            const bool silent = outcome.timed_out;
            if (!plain.marked && silent)
                plain.words += "\nthe login shell's start-up files do not finish";
            outcome = std::move(plain);
        }
    }
    if (!outcome.marked) {
        if (const auto failure = transport_->failure(outcome)) co_return *failure;
        co_return no_python(outcome.noise, outcome.words);
    }
    auto read = read_probe(outcome.answer);
    if (const auto* verdict = std::get_if<Verdict>(&read)) co_return *verdict;
    const auto& probed = std::get<Probed>(read);
    HostReport facts = probed.facts;
    proved_ = probed.staged;
    if (proved_) facts.digest = bundle_digest();
    facts.detail = transport_->note();
    machine_.ready(facts, Monotonic::now());
    co_return Verdict{HostState::ready, {}};
}

asio::awaitable<Result<Place>> Host::prepare() {
    if (preparing_) {
        while (preparing_) co_await prepared_event_.wait();
        co_return *prepared_;
    }
    preparing_ = true;
    const HostReport seen = co_await probe(false);
    if (seen.state != HostState::ready)
        prepared_.emplace(error_of({seen.state, seen.detail}));
    else if (const auto there = place())
        prepared_.emplace(*there);
    else
        prepared_.emplace(co_await stage());
    preparing_ = false;
    machine_.step(HostStep::none);
    prepared_event_.notify();
    co_return *prepared_;
}

asio::awaitable<Result<Place>> Host::stage() {
    machine_.step(HostStep::staging);
    const Place place = place_of(report());
    const StagePlan plan = stage_plan(place);
    Errand errand;
    errand.marker = new_marker();
    errand.words = loader(place.python, errand.marker, {part_name(plan)});
    errand.input = stage_input(plan, bundle_tar());
    errand.deadline = Monotonic::now() + kStageDeadline;
    const auto outcome = co_await run(std::move(errand));
    if (!outcome.clean()) {
        if (const auto failure = transport_->failure(outcome)) {
            machine_.failed(*failure, Monotonic::now());
            co_return error_of(*failure);
        }
    }
    if (auto staged = read_staged(outcome.answer, outcome.words); !staged) {
        // Connection lost in mid-copy or full disk: the place was reached, so it is its own fault.
        const bool cut = outcome.status.signalled || outcome.timed_out;
        const Verdict verdict{cut ? HostState::unreachable : HostState::unsupported,
                              staged.error().message};
        machine_.failed(verdict, Monotonic::now());
        co_return error_of(verdict);
    }
    proved_ = true;
    machine_.staged(bundle_digest());
    shared::log_info("bundle staged", {{"folder", place.folder}});
    co_return place;
}

}  // namespace hostagent
