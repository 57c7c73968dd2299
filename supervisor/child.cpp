#include "supervisor/child.h"

#include <csignal>
#include <exception>
#include <utility>

#include "shared/log.h"
#include "supervisor/black_box.h"

namespace supervisor {

using shared::Monotonic;
using shared::TimePoint;

namespace {

std::string when_again(std::optional<TimePoint> next, TimePoint now) {
    if (!next) return "when asked";
    const auto wait = std::chrono::ceil<shared::Milliseconds>(*next - now);
    return wait.count() <= 0 ? "now" : "in " + std::to_string(wait.count()) + " ms";
}

}  // namespace

// What exists only while the process does. Watches stand last: they go before what they watch.
struct Child::Running {
    explicit Running(shared::ChildProcess started) : process(std::move(started)) {}
    shared::ChildProcess process;
    LastWords words;
    std::unique_ptr<ControlLink> control;
    std::unique_ptr<FdWatch> words_watch;
    std::unique_ptr<FdWatch> exit_watch;
    std::unique_ptr<Alarm> silent_exit;  // it closed its socket and should be gone by then
};

Child::Child(boost::asio::io_context& loop, Identity identity, const Timing& timing,
             std::filesystem::path black_boxes, ChildOwner& owner)
    : loop_(loop),
      identity_(std::move(identity)),
      timing_(timing),
      black_boxes_(std::move(black_boxes)),
      owner_(owner),
      machine_(timing),
      alarm_(loop, [this] { rang(); }),
      since_wall_ms_(shared::wall_ms()) {}

Child::~Child() = default;

shared::Result<void> Child::steer(shared::Steering steering) {
    auto actions = machine_.steer(steering);
    if (!actions) return actions.error();
    apply(*actions);
    return {};
}

void Child::drain() {
    if (running_) send(shared::Drain{});
    apply(machine_.drain());
}

void Child::look(TimePoint now, TimePoint trusted_since) {
    if (running_) apply(machine_.look(now, trusted_since, page_->last_beat()));
}

void Child::send(const shared::ToChild& message, const std::vector<int>& fds) {
    if (!running_ || !running_->control) return;
    if (auto sent = running_->control->send(message, fds); !sent) {
        broke_rules("does not take its control messages: " + sent.error().message);
    }
}

void Child::apply(const Actions& actions) {
    note_state();
    if (actions.start) return spawn();
    // Steps run from the loop only: an order may come from within a handler of what they end.
    if (actions.end) {
        ending_.emplace(*actions.end, Monotonic::now());
        alarm_.set(Monotonic::now());
    } else if (!running_) {
        if (const auto next = machine_.next()) {
            alarm_.set(*next);
        } else {
            alarm_.clear();
        }
    }
}

void Child::spawn() try {
    words_before_.clear();
    auto greeting = owner_.greet(*this);
    if (!greeting) return after_death(greeting.error().message);
    auto [ours, theirs] = shared::ControlSocket::make_pair();
    auto page = std::make_unique<shared::ProcessPage>(shared::ProcessPage::create());
    LastWords words;

    shared::SpawnOptions options;
    options.argv = {identity_.program};
    // For people who look at ps; the child learns its host from the Welcome.
    if (!host().empty()) options.argv.push_back(host());
    options.environment = std::move(greeting->environment);
    options.working_folder = "/";
    options.descriptors = {{theirs.fd(), shared::kControlFd}, {words.child_end(), 2}};
    options.own_session = true;
    auto started = shared::ChildProcess::spawn(options);
    if (!started) return after_death("cannot start: " + started.error().message);

    page_ = std::move(page);
    running_ = std::make_unique<Running>(std::move(*started));
    running_->words = std::move(words);
    running_->words.drop_child_end();
    running_->control = std::make_unique<ControlLink>(
        loop_, std::move(ours),
        ControlLink::Handlers{[this](shared::FromChild message) { heard(std::move(message)); },
                              [this](std::string why) { broken(std::move(why)); }});
    running_->words_watch = std::make_unique<FdWatch>(loop_, running_->words.reading_end(), [this] {
        if (!running_->words.read_some()) running_->words_watch.reset();
    });
    running_->exit_watch =
        std::make_unique<FdWatch>(loop_, running_->process.pidfd(), [this] { ended(); });
    alarm_.clear();
    machine_.started(Monotonic::now());
    note_state();
    std::vector<int> descriptors{page_->fd()};
    descriptors.insert(descriptors.end(), greeting->descriptors.begin(),
                       greeting->descriptors.end());
    send(greeting->welcome, descriptors);
} catch (const std::exception& fault) {
    // Out of descriptors or memory: this child waits for its next turn, the others live on.
    running_.reset();
    after_death(std::string("cannot start: ") + fault.what());
}

void Child::heard(shared::FromChild message) {
    const bool ready = std::holds_alternative<shared::Ready>(message);
    if (!ready || machine_.state() != ChildState::starting) {
        return owner_.child_said(*this, std::move(message));
    }
    machine_.ready(Monotonic::now());
    note_state();
    owner_.child_ready(*this);
}

void Child::broken(std::string why) {
    if (!why.empty()) return broke_rules(std::move(why));
    running_->silent_exit =
        std::make_unique<Alarm>(loop_, [this] { broke_rules("closed its control socket"); });
    running_->silent_exit->set(Monotonic::now() + timing_.terminate_wait);
}

void Child::rang() {
    const TimePoint now = Monotonic::now();
    if (!ending_) return apply(machine_.due(now));
    const auto step = ending_->at(now);
    if (step.signal && running_) {
        running_->process.signal(*step.signal);
        // Its end of the socket says the same to a child that does not heed the signal.
        running_->control.reset();
    }
    if (step.next) {
        alarm_.set(*step.next);
    } else if (!step.signal) {
        shared::log_error("child survives SIGKILL", {{"process", name()}, {"host", host()}});
    }
}

void Child::ended() {
    const auto status = running_->process.try_reap();
    if (!status) return;
    if (running_->control) running_->control->read_some();  // what it said last still counts
    running_->words.read_some();
    words_before_ = running_->words.text();
    // Kept to the end of this function, which its exit_watch is running.
    const auto gone = std::move(running_);
    after_death(status->text());
}

void Child::after_death(const std::string& how) {
    ending_.reset();
    alarm_.clear();
    last_death_wall_ms_ = shared::wall_ms();
    const auto actions = machine_.died(how, Monotonic::now());
    note_state();
    const bool unasked = machine_.last_death_unasked();
    BlackBox box{.process = name(),
                 .host = host(),
                 .cause = machine_.last_cause(),
                 .last_words = words_before_,
                 .events = {},
                 .wall_ms = last_death_wall_ms_};
    if (unasked) box.events = flight();
    const bool failed = machine_.failed();
    const std::string next = when_again(machine_.next(), Monotonic::now());
    owner_.child_ended(*this);
    // The next process first, the papers afterwards.
    apply(actions);
    if (!unasked) {
        shared::log_info("child ended",
                         {{"process", box.process}, {"host", box.host}, {"cause", box.cause}});
        return;
    }
    shared::log_warning(
        failed ? "child failed" : "child died",
        {{"process", box.process}, {"host", box.host}, {"cause", box.cause}, {"next", next}});
    write_black_box(black_boxes_, box);
}

void Child::note_state() {
    if (machine_.state() == noted_state_) return;
    noted_state_ = machine_.state();
    since_wall_ms_ = shared::wall_ms();
}

shared::ProcessInfo Child::info() const {
    shared::ProcessInfo info;
    info.name = name();
    info.host = host();
    info.pid = running_ ? running_->process.pid() : 0;
    info.state = to_string(machine_.state());
    info.since_wall_ms = since_wall_ms_;
    info.restarts = machine_.restarts();
    info.last_death = machine_.last_cause();
    info.last_death_wall_ms = last_death_wall_ms_;
    if (!page_) return info;
    if (running_) info.beat_age_ms = machine_.silence(Monotonic::now()).count();
    for (int i = 0; i < static_cast<int>(shared::Counter::kCount); ++i) {
        info.counters.push_back(page_->counter(static_cast<shared::Counter>(i)));
    }
    return info;
}

std::vector<shared::FlightEvent> Child::flight() const {
    return page_ ? page_->recent() : std::vector<shared::FlightEvent>{};
}

}  // namespace supervisor
