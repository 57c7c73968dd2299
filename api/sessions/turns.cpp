#include "api/sessions/turns.h"

#include <future>

#include "api/providers/provider_json.h"
#include "api/sessions/transcript_json.h"
#include "api/sessions/wakes.h"
#include "shared/log.h"

namespace sessions {

using shared::Error;
using shared::ErrorCode;
using shared::Monotonic;
using shared::OperationId;
using shared::Result;
using shared::SessionId;
using store::Connection;

namespace {
constexpr shared::Milliseconds kLoadDeadline{60'000};
constexpr shared::Milliseconds kNoteDeadline{15'000};
constexpr std::size_t kGenerationBytes = 8;
constexpr shared::Milliseconds kWakeGather{250};  // ends that come together share one turn

Error no_session() {
    return {ErrorCode::not_found, "no such session", {}};
}
}  // namespace

Turns::Turns(TurnWorld& world)
    : world_(world),
      monitor_(world.sessions.world().link.monitor),
      generation_(shared::random_hex(kGenerationBytes)) {
    world_.sessions.set_hooks(
        {.removed =
             [this](SessionId id) {
                 const auto found = conversations_.find(id);
                 if (found == conversations_.end()) return;
                 auto& conversation = *found->second;
                 conversation.removed = true;
                 conversation.waiting.clear();
                 if (conversation.turn) {
                     conversation.turn->drop();
                     // Its last reference must not go here, under the Monitor.
                     world_.workers.run([turn = std::move(conversation.turn)] {});
                 }
                 conversation.log.close();
                 conversations_.erase(found);
             },
         .kernel_gone = [this](SessionId id,
                               const std::string& detail) { tell_kernel_gone(id, detail); },
         .kernel_note = [this](SessionId id, const std::string& text) { note_soon(id, text); },
         .job =
             [this](SessionId id, const nlohmann::json& job) {
                 if (const auto conversation = conversation_of({}, id))
                     conversation->log.publish(job_event(job));
             },
         .wake =
             [this](SessionId id) {
                 const auto conversation = conversation_of({}, id);
                 if (!conversation) return;
                 conversation->wake_owed = true;
                 world_.sessions.world().link.loop.at(
                     Monotonic::now() + kWakeGather, [this, weak = std::weak_ptr(conversation)] {
                         auto lock = monitor_.lock();
                         if (const auto alive = weak.lock()) wake(lock, alive);
                     });
             },
         .host_changed =
             [this](const std::string& host) {
                 for (const auto& [id, conversation] : conversations_) {
                     if (!conversation->turn) continue;
                     const auto session = world_.sessions.find({}, id);
                     if (session && session->row.host == host) conversation->turn->look_again();
                 }
             }});
}

Turns::~Turns() {
    stop(shared::TimePoint::max());
    auto lock = monitor_.lock();
    world_.sessions.set_hooks({});
}

// --- over a restart -----------------------------------------------------------------------------

Result<void> Turns::load() {
    struct Everything {
        std::vector<store::InputRow> inputs;
        std::vector<store::TurnRow> turns;
        std::vector<SessionId> owed;
    };
    auto all = world_.sessions.world().database.call<Everything>(
        [](Connection& connection) -> Result<Everything> {
            auto inputs = store::all_inputs(connection);
            if (!inputs) return std::move(inputs).error();
            auto turns = store::all_turns(connection);
            if (!turns) return std::move(turns).error();
            auto owed = store::sessions_owed_wakes(connection);
            if (!owed) return std::move(owed).error();
            return Everything{std::move(*inputs), std::move(*turns), std::move(*owed)};
        },
        Monotonic::now() + kLoadDeadline);
    if (!all) return std::move(all).error();
    auto lock = monitor_.lock();
    for (const auto& row : world_.sessions.list(lock)) {
        const auto conversation = conversation_of(lock, row.id);
        const auto session = world_.sessions.find(lock, row.id);
        if (!session->link()) continue;
        conversation->kernel_at_start = session->link()->record().run_id;
        conversation->tell_carried_on = session->link()->record().confirmed;
    }
    for (auto& input : all->inputs) {
        const auto conversation = conversation_of(lock, input.session);
        if (conversation) conversation->waiting.emplace(input.seq, std::move(input));
    }
    for (const auto& id : all->owed)
        if (const auto conversation = conversation_of(lock, id)) conversation->wake_owed = true;
    open_turns_ = std::move(all->turns);
    for (const auto& turn : open_turns_)
        if (const auto session = world_.sessions.find(lock, turn.session))
            session->turn_open = true;
    for (const auto& [id, conversation] : conversations_)
        if (!conversation->waiting.empty()) set_open(lock, *conversation);
    return {};
}

void Turns::begin() {
    auto lock = monitor_.lock();
    begun_ = true;
    for (const auto& row : std::exchange(open_turns_, {})) {
        const auto conversation = conversation_of(lock, row.session);
        if (!conversation || conversation->turn) continue;
        Turn::Origin origin;
        origin.input.operation = row.operation;
        origin.input.session = row.session;
        origin.input.submission_id = row.submission_id;
        origin.resume = true;
        origin.interrupted = row.interrupted;
        run(lock, conversation, std::move(origin));
    }
    for (const auto& [id, conversation] : conversations_) start_next(lock, conversation);
}

bool Turns::stop(shared::TimePoint deadline) {
    std::vector<std::shared_ptr<Turn>> turns;  // to go after the workers, without the Monitor
    {
        auto lock = monitor_.lock();
        stopping_ = true;
        for (const auto& [id, conversation] : conversations_) {
            conversation->log.close();
            if (!conversation->turn) continue;
            conversation->turn->drop();
            turns.push_back(std::move(conversation->turn));
        }
    }
    return world_.workers.close(deadline);
}

void Turns::tell_kernel_gone(SessionId id, const std::string& detail) {
    if (const auto found = conversations_.find(id); found != conversations_.end())
        found->second->tell_carried_on = false;
    world_.sessions.world().database.post(
        [id, text = "The kernel of this session was lost (" + detail +
                    "): its names and jobs are gone. The next cell starts a new one."](
            Connection& connection) { return store::add_model_note(connection, id, text); },
        [](const Result<void>& kept) {
            if (!kept)
                shared::log_warning("a note could not be stored", {{"why", kept.error().message}});
        });
}

// --- which turn runs ----------------------------------------------------------------------------

Turns::ConversationPtr Turns::conversation_of(const Sessions::Lock& lock, SessionId id) {
    if (const auto found = conversations_.find(id); found != conversations_.end())
        return found->second;
    if (!world_.sessions.find(lock, id)) return nullptr;
    return conversations_[id] = std::make_shared<Conversation>(id, generation_);
}

void Turns::set_open(const Sessions::Lock& lock, const Conversation& conversation) {
    if (const auto session = world_.sessions.find(lock, conversation.session))
        session->turn_open = conversation.turn != nullptr || !conversation.waiting.empty();
}

void Turns::run(const Sessions::Lock& lock, const ConversationPtr& conversation,
                Turn::Origin origin) {
    conversation->turn = std::make_shared<Turn>(
        world_, conversation, std::move(origin), [this, weak = std::weak_ptr(conversation)] {
            const auto alive = weak.lock();
            if (!alive || stopping_ || alive->removed) return;
            alive->turn.reset();  // the worker that calls this holds it
            start_next({}, alive);
        });
    set_open(lock, *conversation);
    conversation->turn->start();
}

void Turns::start_next(const Sessions::Lock& lock, const ConversationPtr& conversation) {
    if (!begun_ || stopping_ || conversation->turn) return;
    if (conversation->waiting.empty()) {
        set_open(lock, *conversation);
        return wake(lock, conversation);
    }
    run(lock, conversation, {.input = conversation->waiting.begin()->second});
}

// --- ends of what the model started --------------------------------------------------------------

void Turns::wake(const Sessions::Lock& lock, const ConversationPtr& conversation) {
    if (!begun_ || stopping_ || conversation->removed || conversation->waking ||
        !conversation->wake_owed || conversation->turn || !conversation->waiting.empty())
        return;
    conversation->waking = true;
    conversation->wake_owed = false;
    store::InputRow input;
    input.operation = OperationId::make();
    input.session = conversation->session;
    input.source = kWakeSource;
    input.created_ms = shared::wall_ms();
    world_.sessions.note_id(lock, input.operation.uuid);
    auto admission = std::make_shared<journal::Admission>();
    world_.sessions.world().database.post(
        [input, admission](Connection& connection) mutable -> Result<void> {
            auto owed = store::owed_wakes(connection, input.session, kWakesTold);
            if (!owed) return std::move(owed).error();
            if (owed->empty()) return {};  // it was read meanwhile
            input.text = wake_prompt(*owed);
            const nlohmann::json receipt = {{"operationId", input.operation.text()}};
            auto admitted =
                journal::admit(connection, input, kWakeSource, providers::dump_json(receipt));
            if (!admitted) return std::move(admitted).error();
            *admission = std::move(*admitted);
            return store::wakes_told(connection, input.session, owed->back().id, input.created_ms);
        },
        [this, conversation, admission](const Result<void>& done) {
            auto held = monitor_.lock();
            conversation->waking = false;
            if (conversation->removed) return;
            if (!done) {  // with the next end, turn or start of the daemon
                conversation->wake_owed = true;
                shared::log_warning("a session could not be woken",
                                    {{"why", done.error().message}});
                return;
            }
            if (admission->fresh)
                conversation->waiting.emplace(admission->input.seq, admission->input);
            start_next(held, conversation);
        });
}

// --- prompts ------------------------------------------------------------------------------------

Result<std::optional<std::string>> Turns::repeated(OperationId operation, const std::string& intent,
                                                   shared::TimePoint deadline) {
    return world_.sessions.world().database.call<std::optional<std::string>>(
        [operation, intent](Connection& connection) {
            return journal::repeated(connection, operation, intent);
        },
        deadline);
}

Result<std::string> Turns::submit(SessionId id, const Prompt& prompt, shared::TimePoint deadline) {
    store::InputRow input;
    input.operation = prompt.operation;
    input.session = id;
    input.text = prompt.text;
    input.client_id = prompt.client_id;
    input.submission_id = prompt.submission_id;
    input.source = prompt.source;
    input.created_ms = shared::wall_ms();
    nlohmann::json receipt = {{"operationId", prompt.operation.text()}};
    if (!prompt.client_id.empty()) receipt["clientId"] = prompt.client_id;
    if (!prompt.submission_id.empty()) receipt["submissionId"] = prompt.submission_id;
    {
        auto lock = monitor_.lock();
        if (world_.sessions.holder(lock, shared::CellId{prompt.operation.uuid}))
            return Error{ErrorCode::conflict, "operationId belongs to a cell", {}};
        world_.sessions.note_id(lock, prompt.operation.uuid);
        receipt["queued"] = state(lock, id).running;
        if (const auto session = world_.sessions.find(lock, id))
            session->row.used_ms = input.created_ms;
    }
    struct Waiting {
        std::promise<Result<void>> kept;
        journal::Admission admission;
    };
    auto waiting = std::make_shared<Waiting>();
    auto kept = waiting->kept.get_future();
    world_.sessions.world().database.post(
        [input, waiting, intent = prompt.intent,
         text = providers::dump_json(receipt)](Connection& connection) -> Result<void> {
            auto admission = journal::admit(connection, input, intent, text);
            if (!admission) return std::move(admission).error();
            waiting->admission = std::move(*admission);
            return store::touch_session(connection, input.session, input.created_ms);
        },
        // In the store's order, and also when nobody waits for the answer any more.
        [this, id, waiting](const Result<void>& done) {
            if (done && waiting->admission.fresh) {
                auto lock = monitor_.lock();
                if (const auto conversation = conversation_of(lock, id); conversation) {
                    const auto& made = waiting->admission.input;
                    conversation->waiting.emplace(made.seq, made);
                    start_next(lock, conversation);
                    set_open(lock, *conversation);
                }
            }
            waiting->kept.set_value(done);
        });
    if (kept.wait_until(deadline) != std::future_status::ready)
        return Error{ErrorCode::timed_out,
                     "the store did not answer in time; ask again with the same operationId",
                     {}};
    if (auto done = kept.get(); !done) return std::move(done).error();
    return waiting->admission.receipt;
}

Result<void> Turns::note(SessionId id, const std::string& text) {
    auto conversation = this->conversation(id);
    if (!conversation) return std::move(conversation).error();
    auto rows = world_.sessions.world().database.call<journal::Rows>(
        [id, text](Connection& connection) -> Result<journal::Rows> {
            if (auto told = store::add_model_note(connection, id, text); !told)
                return std::move(told).error();
            return journal::append(connection, id, {NoteRow{text}});
        },
        Monotonic::now() + kNoteDeadline);
    if (!rows) return std::move(rows).error();
    for (const auto& row : *rows) (*conversation)->log.publish(event_form(row), row.seq);
    return {};
}

/// The same from the loop's thread, which waits for no disk. The Monitor is held.
void Turns::note_soon(SessionId id, const std::string& text) {
    auto rows = std::make_shared<journal::Rows>();
    world_.sessions.world().database.post(
        [id, text, rows](Connection& connection) -> Result<void> {
            if (auto told = store::add_model_note(connection, id, text); !told)
                return std::move(told).error();
            auto stored = journal::append(connection, id, {NoteRow{text}});
            if (!stored) return std::move(stored).error();
            *rows = std::move(*stored);
            return {};
        },
        [this, id, rows](const Result<void>& kept) {
            if (!kept)
                shared::log_warning("a note could not be stored", {{"why", kept.error().message}});
            auto lock = monitor_.lock();
            if (const auto conversation = kept ? conversation_of(lock, id) : nullptr)
                for (const auto& row : *rows)
                    conversation->log.publish(event_form(row), row.seq);
        });
}

/// The inputs were taken out of `waiting` already, so that no turn begins with one meanwhile; what
/// cannot be cancelled comes back. With `turn`, its own input goes too if it was not begun, else it
/// is marked: an interrupt that was answered holds over a crash.
Result<std::size_t> Turns::cancel_waiting(const ConversationPtr& conversation,
                                          std::vector<store::InputRow> inputs,
                                          const std::shared_ptr<Turn>& turn,
                                          shared::TimePoint deadline) {
    if (inputs.empty() && !turn) return std::size_t{0};
    std::vector<OperationId> operations;
    for (const auto& input : inputs) operations.push_back(input.operation);
    if (turn) operations.push_back(turn->input().operation);
    auto gone = world_.sessions.world().database.call<bool>(
        [operations, mark = turn != nullptr,
         id = conversation->session](Connection& connection) -> Result<bool> {
            for (const auto& operation : operations)
                if (auto deleted = store::delete_input(connection, operation); !deleted)
                    return std::move(deleted).error();
            if (mark)
                if (auto marked = store::mark_interrupted(connection, id, operations.back());
                    !marked)
                    return std::move(marked).error();
            return true;
        },
        deadline);
    auto lock = monitor_.lock();
    if (!gone) {
        if (!conversation->removed)
            for (auto& input : inputs) conversation->waiting.emplace(input.seq, std::move(input));
        start_next(lock, conversation);
        return std::move(gone).error();
    }
    set_open(lock, *conversation);
    return inputs.size();
}

Result<Turns::Interrupted> Turns::interrupt(SessionId id, std::optional<OperationId> only,
                                            shared::TimePoint deadline) {
    auto found = conversation(id);
    if (!found) return std::move(found).error();
    const auto& conversation = *found;
    std::vector<store::InputRow> inputs;
    std::shared_ptr<Turn> turn;
    {
        auto lock = monitor_.lock();
        turn = conversation->turn;
        if (only && (!turn || turn->input().operation != *only)) return Interrupted{};
        for (auto at = conversation->waiting.begin(); at != conversation->waiting.end();) {
            if (turn && at->first == turn->input().seq) {
                ++at;
                continue;
            }
            inputs.push_back(std::move(at->second));
            at = conversation->waiting.erase(at);
        }
    }
    auto cancelled = cancel_waiting(conversation, std::move(inputs), turn, deadline);
    if (!cancelled) return std::move(cancelled).error();
    auto lock = monitor_.lock();
    if (turn) turn->interrupt();
    Interrupted done{turn != nullptr, *cancelled};
    lock.unlock();  // before `turn`, perhaps the last one, goes
    return done;
}

Result<std::string> Turns::cancel(SessionId id, const std::string& submission,
                                  shared::TimePoint deadline) {
    auto found = conversation(id);
    if (!found) return std::move(found).error();
    const auto& conversation = *found;
    const auto is_it = [&](const store::InputRow& input) {
        return input.submission_id == submission || input.operation.text() == submission;
    };
    std::vector<store::InputRow> inputs;
    std::shared_ptr<Turn> turn;
    {
        auto lock = monitor_.lock();
        turn = conversation->turn;
        if (turn && is_it(turn->input())) {
            const bool begun = turn->delivered();
            lock.unlock();
            if (auto kept = cancel_waiting(conversation, {}, turn, deadline); !kept)
                return std::move(kept).error();
            lock.lock();
            turn->interrupt();
            lock.unlock();  // before `turn`, perhaps the last one, goes
            return std::string(begun ? "interrupt_requested" : "cancelled_queued");
        }
        for (auto at = conversation->waiting.begin(); at != conversation->waiting.end(); ++at) {
            if (!is_it(at->second)) continue;
            inputs.push_back(std::move(at->second));
            conversation->waiting.erase(at);
            break;
        }
    }
    if (inputs.empty()) return std::string("not_pending");
    auto cancelled = cancel_waiting(conversation, std::move(inputs), nullptr, deadline);
    if (!cancelled) return std::move(cancelled).error();
    return std::string("cancelled_queued");
}

// --- what there is ------------------------------------------------------------------------------

Result<std::shared_ptr<Conversation>> Turns::conversation(SessionId id) {
    auto lock = monitor_.lock();
    auto found = conversation_of(lock, id);
    if (!found) return no_session();
    return found;
}

ConversationState Turns::state(const Sessions::Lock&, SessionId id) const {
    ConversationState state;
    const auto found = conversations_.find(id);
    if (found == conversations_.end()) return state;
    const Conversation& conversation = *found->second;
    state.running = conversation.turn != nullptr || !conversation.waiting.empty();
    state.waiting = conversation.waiting.size();
    if (conversation.turn) {
        state.turn = conversation.turn->state();
        state.operation = conversation.turn->input().operation.text();
        if (!conversation.turn->delivered() && state.waiting > 0) --state.waiting;
    }
    return state;
}

Result<HistoryPage> Turns::history(SessionId id, std::int64_t before, std::size_t rows,
                                   shared::TimePoint deadline) {
    return world_.sessions.world().database.call<HistoryPage>(
        [id, before, rows](Connection& connection) -> Result<HistoryPage> {
            auto page = store::transcript_page(connection, id, before, rows, 0);
            if (!page) return std::move(page).error();
            auto read = journal::rows_of(page->rows);
            if (!read) return std::move(read).error();
            return HistoryPage{std::move(*read), page->more};
        },
        deadline);
}

Result<std::optional<Turns::Operation>> Turns::operation(OperationId id,
                                                         shared::TimePoint deadline) {
    auto state = world_.sessions.world().database.call<std::optional<journal::OperationState>>(
        [id](Connection& connection) { return journal::operation_state(connection, id); },
        deadline);
    if (!state) return std::move(state).error();
    if (!*state) return std::optional<Operation>();
    Operation operation{std::move(**state), {}};
    auto lock = monitor_.lock();
    for (const auto& [session, conversation] : conversations_) {
        const auto& turn = conversation->turn;
        if (!turn) continue;
        const bool is_its_turn = turn->input().operation == id;
        const bool waits_behind =
            operation.state.delivery == "pending" &&
            std::any_of(conversation->waiting.begin(), conversation->waiting.end(),
                        [&](const auto& each) { return each.second.operation == id; });
        if (!is_its_turn && !waits_behind) continue;
        if (const auto now = turn->state(); now.blocked) operation.blocking_reason = now.reason;
        // Begun, but its cell waits for somebody to sign in.
        const auto live = world_.sessions.find(lock, session);
        const auto* link = live ? live->link() : nullptr;
        if (operation.blocking_reason.empty() && link != nullptr && link->machine().blocked())
            operation.blocking_reason = link->machine().detail();
    }
    return std::optional(std::move(operation));
}

}  // namespace sessions
