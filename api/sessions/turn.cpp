#include "api/sessions/turn.h"

#include <future>
#include <random>

#include "api/providers/python_tool.h"
#include "api/sessions/delta_publisher.h"
#include "api/sessions/readiness.h"
#include "api/sessions/transcript_json.h"
#include "api/sessions/turn_request.h"
#include "shared/log.h"

namespace sessions {

using shared::Error;
using shared::ErrorCode;
using shared::Monotonic;
using shared::Result;
using store::Connection;

namespace {
constexpr shared::Milliseconds kDiskAgain{1000};
}  // namespace

Turn::Turn(TurnWorld& world, std::shared_ptr<Conversation> conversation, Origin origin,
           std::function<void()> on_end)
    : world_(world),
      monitor_(world.sessions.world().link.monitor),
      conversation_(std::move(conversation)),
      origin_(std::move(origin)),
      on_end_(std::move(on_end)),
      consumed_(origin_.resume) {}

// --- signals ------------------------------------------------------------------------------------

void Turn::start() {
    if (!origin_.resume) return post(turn::Event(turn::Start{}));
    post(Resume{});
    if (origin_.interrupted) interrupt();
}

void Turn::interrupt() {
    if (interrupted_) return;
    interrupted_ = true;
    // First the event, then the end of the request: the machine must know why it ended.
    post(turn::Event(turn::Interrupt{}));
    cancel_.cancel();
}

void Turn::look_again() {
    if (machine_.phase() == TurnMachine::Phase::blocked) post(turn::Event(turn::LookAgain{}));
}

void Turn::drop() {
    dropped_ = true;
    signals_.clear();
    cancel_.cancel();
}

TurnState Turn::state() const {
    TurnState state;
    state.phase = to_string(machine_.phase());
    state.reason = machine_.reason();
    state.attempt = machine_.attempt();
    state.blocked = machine_.phase() == TurnMachine::Phase::blocked;
    if (state.blocked || machine_.phase() == TurnMachine::Phase::retry_wait)
        state.retry_in_ms = std::max<std::int64_t>(
            0,
            std::chrono::duration_cast<shared::Milliseconds>(machine_.retry_at() - Monotonic::now())
                .count());
    return state;
}

void Turn::post(Signal signal) {
    if (dropped_) return;
    signals_.push_back(std::move(signal));
    if (scheduled_) return;
    scheduled_ = true;
    world_.workers.run([self = shared_from_this()] { self->work(); });
}

void Turn::work() {
    for (;;) {
        Signal signal;
        {
            auto lock = monitor_.lock();
            if (dropped_ || signals_.empty()) {
                scheduled_ = false;
                break;
            }
            signal = std::move(signals_.front());
            signals_.pop_front();
        }
        try {
            take(signal);
        } catch (const std::exception& fault) {
            shared::log_error("a turn failed",
                              {{"session", conversation_->session.text()}, {"why", fault.what()}});
            act(turn::Finish{"failed", std::string("a fault of the daemon: ") + fault.what()});
        }
    }
    if (stopped()) watch_.reset();
}

void Turn::take(const Signal& signal) {
    if (const auto* event = std::get_if<turn::Event>(&signal))
        feed(*event);
    else if (std::holds_alternative<Resume>(signal))
        resume();
    else
        take_cell();
}

void Turn::feed(const turn::Event& event) {
    std::vector<turn::Action> actions;
    {
        auto lock = monitor_.lock();
        if (dropped_) return;
        actions = machine_.on(event, Monotonic::now());
    }
    for (const auto& action : actions) {
        if (stopped()) return;
        std::visit([this](const auto& each) { act(each); }, action);
    }
}

bool Turn::stopped() const {
    auto lock = monitor_.lock();
    return dropped_;
}

/// Let go: what is on disk is all that counts.
void Turn::leave() {
    auto lock = monitor_.lock();
    drop();
}

// --- the store ----------------------------------------------------------------------------------

template <class T>
std::optional<T> Turn::settle(std::function<Result<T>(Connection&)> work) {
    struct Waiting {
        std::promise<Result<void>> kept;
        std::optional<T> value;
    };
    for (bool told = false;; told = true) {
        auto waiting = std::make_shared<Waiting>();
        world_.sessions.world().database.post(
            [work, waiting](Connection& connection) -> Result<void> {
                auto result = work(connection);
                if (!result) return std::move(result).error();
                waiting->value.emplace(std::move(*result));
                return {};
            },
            [waiting, conversation = conversation_](const Result<void>& kept) {
                if constexpr (std::is_same_v<T, journal::Rows>)
                    if (kept)
                        for (const auto& row : *waiting->value)
                            conversation->log.publish(event_form(row), row.seq);
                waiting->kept.set_value(kept);
            });
        // The store always answers, at its own end at the latest.
        const auto kept = waiting->kept.get_future().get();
        if (kept) return std::move(waiting->value);
        const auto code = kept.error().code;
        if (code == ErrorCode::conflict || code == ErrorCode::invalid) return std::nullopt;
        if (!told)
            shared::log_warning(
                "a turn waits for the disk",
                {{"session", conversation_->session.text()}, {"why", kept.error().message}});
        if (stopped() || !world_.workers.pause(kDiskAgain)) return std::nullopt;
    }
}

std::optional<journal::Rows> Turn::append(std::vector<RowContent> contents) {
    auto rows = settle<journal::Rows>(
        [id = conversation_->session, contents = std::move(contents)](Connection& connection) {
            return journal::append(connection, id, contents);
        });
    if (!rows) {
        leave();
        return rows;
    }
    for (const auto& row : *rows) transcript_.add(row);
    return rows;
}

bool Turn::load_rows() {
    struct Loaded {
        journal::Rows rows;
    };
    auto loaded =
        settle<Loaded>([id = conversation_->session](Connection& connection) -> Result<Loaded> {
            auto rows = journal::newest_rows(connection, id);
            if (!rows) return std::move(rows).error();
            return Loaded{std::move(*rows)};
        });
    if (!loaded) {
        leave();
        return false;
    }
    transcript_ = Transcript(std::move(loaded->rows));
    return true;
}

/// Takes the input out of the queue, if this was not done yet.
bool Turn::begin() {
    if (consumed_) return true;
    auto rows = settle<journal::Rows>([input = origin_.input](Connection& connection) {
        return journal::consume(connection, input);
    });
    auto lock = monitor_.lock();
    conversation_->waiting.erase(origin_.input.seq);
    if (!rows) {  // cancelled meanwhile
        drop();
        on_end_();
        return false;
    }
    consumed_ = true;
    lock.unlock();
    return load_rows();
}

void Turn::resume() {
    if (!load_rows()) return;
    turn::Resumed event;
    for (const TranscriptRow* row : transcript_.open_calls()) {
        const auto& call = std::get<ToolCallRow>(row->content);
        TurnCall open{row->seq, call.cell.value_or(shared::CellId{}), {}};
        if (const auto parsed = providers::parse_python_call(call.name, call.arguments); !parsed)
            open.problem = parsed.error().message;
        event.open_calls.push_back(std::move(open));
    }
    // The answer was stored and needs no cell: only the end of the turn was missing.
    const TranscriptRow* last = nullptr;
    for (const auto& row : transcript_.rows())
        if (!std::holds_alternative<NoteRow>(row.content)) last = &row;
    if (event.open_calls.empty() && last != nullptr &&
        std::holds_alternative<TextRow>(last->content))
        return act(turn::Finish{origin_.interrupted ? "interrupted" : "completed", ""});
    feed(turn::Event(event));
}

// --- actions ------------------------------------------------------------------------------------

void Turn::act(const turn::CheckReady&) {
    const auto reason = blocking_reason(world_.sessions, conversation_->session,
                                        std::exchange(first_check_, false));
    auto lock = monitor_.lock();
    post(reason ? turn::Event(turn::Blocked{*reason}) : turn::Event(turn::Ready{}));
}

void Turn::act(const turn::CancelRequest&) {
    cancel_.cancel();
}

void Turn::act(const turn::StoreResult& action) {
    store_result(action.call, providers::stand_in_result(action.status, action.words));
}

void Turn::act(const turn::SetTimer& action) {
    world_.sessions.world().link.loop.at(action.at, [weak = weak_from_this()] {
        const auto self = weak.lock();
        if (!self) return;
        auto lock = self->monitor_.lock();
        self->post(turn::Event(turn::TimerFired{}));
    });
}

void Turn::act(const turn::Report&) {
    TurnState now;
    {
        auto lock = monitor_.lock();
        now = state();
    }
    conversation_->log.publish(phase_event(now.phase, now.reason, now.attempt, now.retry_in_ms));
}

void Turn::act(const turn::Finish& action) {
    watch_.reset();
    if (consumed_) {
        auto rows = settle<journal::Rows>(
            [id = conversation_->session, text = broken_off_,
             row =
                 TurnCompletedRow{origin_.input.operation.text(), action.outcome, action.message}](
                Connection& connection) { return journal::finish(connection, id, text, row); });
        if (!rows) return leave();
    } else {
        auto gone = settle<bool>([id = origin_.input.operation](Connection& connection) {
            return store::delete_input(connection, id);
        });
        if (!gone) return leave();
    }
    auto lock = monitor_.lock();
    if (dropped_) return;
    conversation_->waiting.erase(origin_.input.seq);
    world_.sessions.world().metrics.add(metrics::Count::turns, {action.outcome});
    drop();
    on_end_();
}

// --- the model ----------------------------------------------------------------------------------

/// Gives the readers each piece, and keeps the text in case the answer breaks off.
class Turn::Sink : public providers::EventSink {
  public:
    explicit Sink(Turn& turn)
        : turn_(turn),
          deltas_(std::make_shared<DeltaPublisher>(turn.conversation_,
                                                   turn.world_.sessions.world().link.loop)) {}

    void on_event(const providers::ModelEvent& event) override {
        if (const auto* piece = std::get_if<providers::TextDelta>(&event)) {
            text += piece->text;
            show("text_delta", piece->text);
        } else if (const auto* thought = std::get_if<providers::ReasoningDelta>(&event)) {
            show("thinking_delta", thought->text);
        } else if (std::holds_alternative<providers::ToolCallStarted>(event)) {
            deltas_->flush();
            started();
        }
    }
    void flush() { deltas_->flush(); }

    std::string text;
    const shared::TimePoint began = Monotonic::now();

  private:
    void show(const char* type, const std::string& piece) {
        started();
        deltas_->add(type, piece);
    }
    void started() {
        if (std::exchange(started_, true)) return;
        {
            auto lock = turn_.monitor_.lock();
            (void)turn_.machine_.on(turn::FirstOutput{}, Monotonic::now());
        }
        turn_.act(turn::Report{});
    }

    Turn& turn_;
    const std::shared_ptr<DeltaPublisher> deltas_;
    bool started_ = false;
};

Result<std::shared_ptr<const SentRequest>> Turn::compose() {
    RequestParts parts;
    {
        auto lock = monitor_.lock();
        const auto session = world_.sessions.find(lock, conversation_->session);
        if (!session) return Error{ErrorCode::not_found, "the session is gone", {}};
        parts.session = session->row;
    }
    auto config = world_.config.read();
    if (!config) return std::move(config).error();
    auto profile = config->profile(parts.session.provider);
    if (!profile) return std::move(profile).error();
    parts.model = parts.session.model.empty() ? profile->model : parts.session.model;
    if (!project_) project_ = world_.open_project(parts.session.workspace);

    auto notes = settle<std::vector<store::ModelNoteRow>>(
        [id = conversation_->session](Connection& connection) {
            return store::model_notes(connection, id);
        });
    if (!notes) return Error{ErrorCode::unavailable, "the daemon ends", {}};
    notes_told_ = notes->empty() ? 0 : notes->back().id;
    {
        auto lock = monitor_.lock();
        auto& hosts = world_.sessions.world().link.hosts;
        if (const auto* host = hosts.find(lock, parts.session.host)) parts.host = host->report();
        const auto session = world_.sessions.find(lock, conversation_->session);
        told_carried_on_ = conversation_->tell_carried_on && session != nullptr;
        if (told_carried_on_) parts.notes.push_back(carried_on_note(*session));
    }
    for (const auto& note : *notes) parts.notes.push_back(note.text);
    auto sent = std::make_shared<SentRequest>();
    sent->provider = profile->name;
    sent->at_ms = shared::wall_ms();
    sent->request = make_request(parts, *project_, transcript_);
    return std::shared_ptr<const SentRequest>(std::move(sent));
}

void Turn::act(const turn::SendRequest& action) {
    if (!begin()) return;
    const auto fail = [this](providers::Failure failure) {
        thread_local std::minstd_rand random{std::random_device{}()};
        const double jitter = std::uniform_real_distribution<double>(0, 1)(random);
        auto lock = monitor_.lock();
        post(turn::Event(turn::RequestFailed{std::move(failure), jitter}));
    };
    const auto misconfigured = [&](const Error& error) {
        fail({.kind = providers::FailureKind::config, .message = error.message});
    };
    if (action.attempt == 1 || !request_) {  // an attempt again says the same
        auto composed = compose();
        if (!composed) return misconfigured(composed.error());
        request_ = std::move(*composed);
    }
    auto config = world_.config.read();
    if (!config) return misconfigured(config.error());
    auto profile = config->profile(request_->provider);
    if (!profile) return misconfigured(profile.error());
    auto provider = providers::make_provider(*profile, world_.environment);
    if (!provider) return misconfigured(provider.error());
    {
        auto lock = monitor_.lock();
        if (dropped_) return;
        conversation_->last_request = request_;
    }
    Sink sink(*this);
    const auto outcome = (*provider)->run(request_->request, sink, cancel_);
    sink.flush();
    world_.sessions.world().metrics.add(
        metrics::Count::provider_attempts,
        {request_->provider,
         std::holds_alternative<providers::Completion>(outcome) ? "ok" : "failed"});
    if (stopped()) return;
    if (const auto* completion = std::get_if<providers::Completion>(&outcome))
        return take_answer(*completion);
    // What the readers saw stays, although it is not all: the turn ends with it.
    broken_off_ = std::move(sink.text);
    fail(std::get<providers::Failure>(outcome));
}

void Turn::take_answer(const providers::Completion& completion) {
    std::vector<RowContent> contents;
    if (!completion.reasoning.empty()) contents.push_back(ThinkingRow{completion.reasoning, 0});
    if (!completion.text.empty()) contents.push_back(TextRow{completion.text});
    std::vector<std::string> problems;
    for (const auto& call : completion.calls) {
        const auto parsed = providers::parse_python_call(call.name, call.arguments);
        problems.push_back(parsed ? "" : parsed.error().message);
        contents.push_back(
            ToolCallRow{call.call_id, call.name, call.arguments,
                        parsed ? std::optional(shared::CellId::make()) : std::nullopt});
    }
    auto rows = settle<journal::Rows>(
        [id = conversation_->session, contents, notes = notes_told_](Connection& connection) {
            return journal::answered(connection, id, contents, notes);
        });
    if (!rows) return leave();
    notes_told_ = 0;
    turn::Answered answered;
    for (const auto& row : *rows) {
        transcript_.add(row);
        const auto* call = std::get_if<ToolCallRow>(&row.content);
        if (call == nullptr) continue;
        answered.calls.push_back(
            {row.seq, call->cell.value_or(shared::CellId{}), problems[answered.calls.size()]});
    }
    auto lock = monitor_.lock();
    if (told_carried_on_) conversation_->tell_carried_on = false;
    told_carried_on_ = false;
    post(turn::Event(std::move(answered)));
}

}  // namespace sessions
