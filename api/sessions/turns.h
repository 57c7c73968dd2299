// All turns of the daemon: accepts prompts, keeps their order, runs one turn per session at a time,
// and goes on after a restart where the rows say.
//
// "Accepted" means on disk. From the moment submit() returns until the turn has ended and the
// transcript holds all of it, state().running is true. Nobody has to watch.
//
// Unless a Lock is asked for, functions block on the store until their deadline at most and are for
// HTTP threads.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/sessions/turn.h"

namespace sessions {

struct Prompt {
    shared::OperationId operation;
    std::string text;
    std::string client_id;
    std::string submission_id;
    std::string source = "user";
    std::string intent;  // canonical: what was asked, before skills were resolved
};

struct ConversationState {
    bool running = false;
    TurnState turn;
    std::size_t waiting = 0;  // behind the turn
    std::string operation;    // of the turn
};

struct HistoryPage {
    std::vector<TranscriptRow> rows;  // oldest first
    bool more = false;
};

class Turns {
  public:
    explicit Turns(TurnWorld& world);
    ~Turns();

    /// After Sessions::load() and before the loop runs. Errors: storage.
    shared::Result<void> load();
    /// Once the loop runs: what waits and what was open goes on.
    void begin();
    /// Lets every turn go and ends every stream. False: a worker was still busy at the deadline;
    /// end the process by _exit.
    bool stop(shared::TimePoint deadline);

    /// The receipt, JSON: {operationId, clientId?, submissionId?, queued}. Errors: those of
    /// journal::admit(); timed_out (whether it was accepted is unknown: ask again, same id).
    shared::Result<std::string> submit(shared::SessionId session, const Prompt& prompt,
                                       shared::TimePoint deadline);
    /// The receipt of the same request before, if there was one. Errors: conflict, storage.
    shared::Result<std::optional<std::string>> repeated(shared::OperationId operation,
                                                        const std::string& intent,
                                                        shared::TimePoint deadline);
    /// A durable note in the transcript; the model is told with its next request.
    shared::Result<void> note(shared::SessionId session, const std::string& text);

    struct Interrupted {
        bool turn = false;          // one was asked to stop
        std::size_t cancelled = 0;  // inputs that waited
    };
    /// Cancels what waits and asks the turn to stop. With `only`: nothing happens unless the turn
    /// under way is that one. Errors: not_found, storage.
    shared::Result<Interrupted> interrupt(shared::SessionId session,
                                          std::optional<shared::OperationId> only,
                                          shared::TimePoint deadline);
    /// By operation id or the client's submission id: "cancelled_queued", "interrupt_requested" or
    /// "not_pending". Errors: not_found, storage.
    shared::Result<std::string> cancel(shared::SessionId session, const std::string& submission,
                                       shared::TimePoint deadline);

    /// For a live session. Errors: not_found.
    shared::Result<std::shared_ptr<Conversation>> conversation(shared::SessionId session);
    ConversationState state(const Sessions::Lock& lock, shared::SessionId session) const;
    shared::Result<HistoryPage> history(shared::SessionId session, std::int64_t before,
                                        std::size_t rows, shared::TimePoint deadline);
    /// Absent: no such operation. `blocking_reason`: why it is not delivered, in the host's words.
    struct Operation {
        journal::OperationState state;
        std::string blocking_reason;
    };
    shared::Result<std::optional<Operation>> operation(shared::OperationId id,
                                                       shared::TimePoint deadline);

    TurnWorld& world() { return world_; }

  private:
    using ConversationPtr = std::shared_ptr<Conversation>;
    ConversationPtr conversation_of(const Sessions::Lock& lock, shared::SessionId session);
    void start_next(const Sessions::Lock& lock, const ConversationPtr& conversation);
    void run(const Sessions::Lock& lock, const ConversationPtr& conversation, Turn::Origin origin);
    void set_open(const Sessions::Lock& lock, const Conversation& conversation);
    /// One turn for all that ended since, once nothing else is under way.
    void wake(const Sessions::Lock& lock, const ConversationPtr& conversation);
    void tell_kernel_gone(shared::SessionId session, const std::string& detail);
    void note_soon(shared::SessionId session, const std::string& text);
    shared::Result<std::size_t> cancel_waiting(const ConversationPtr& conversation,
                                               std::vector<store::InputRow> inputs,
                                               const std::shared_ptr<Turn>& turn,
                                               shared::TimePoint deadline);

    TurnWorld& world_;
    agents::Monitor& monitor_;
    const std::string generation_;  // of the streams: one daemon's life
    std::map<shared::SessionId, ConversationPtr> conversations_;
    std::vector<store::TurnRow> open_turns_;  // from load() to begin()
    bool begun_ = false;
    bool stopping_ = false;
};

}  // namespace sessions
