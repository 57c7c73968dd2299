// One live turn: does what TurnMachine says, and tells it what came of it.
//
//  - Signals (events of the machine, a cell that ended, a timer) are queued from any thread with
//    the Monitor held; one worker at a time takes them in order. No worker is held while the turn
//    waits: for a host, for a pause between requests, for a cell.
//  - What counts is on disk before the machine hears of it. A disk that refuses is asked again each
//    second until the daemon or the session ends.
//  - When the daemon ends, the turn is simply let go: its rows say where the next one goes on.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "api/providers/provider.h"
#include "api/sessions/cells.h"
#include "api/sessions/conversation.h"
#include "api/sessions/transcript.h"
#include "api/sessions/turn_journal.h"
#include "api/sessions/turn_machine.h"
#include "api/sessions/turn_workers.h"

namespace sessions {

inline constexpr shared::Milliseconds kInterruptHeard{2'000};  // else the host is away

/// What all turns share; outlives them.
struct TurnWorld {
    Sessions& sessions;
    Cells& cells;
    TurnWorkers& workers;
    /// Blocks on hosts within bounds of its own.
    std::function<ProjectContext(const std::string& workspace)> open_project;
    providers::ConfigFile& config;
    providers::Environment environment;
    shared::Milliseconds background{60'000};  // after so long a model's cell goes on without it
};

struct TurnState {
    const char* phase = "idle";
    std::string reason;
    int attempt = 0;
    std::int64_t retry_in_ms = 0;
    bool blocked = false;
};

class Turn : public std::enable_shared_from_this<Turn> {
  public:
    /// `resume`: the input was consumed by an earlier api; else it waits in the queue.
    struct Origin {
        store::InputRow input;
        bool resume = false;
        bool interrupted = false;
    };
    /// `on_end` is called once, with the Monitor held, when all of the turn is in the transcript.
    Turn(TurnWorld& world, std::shared_ptr<Conversation> conversation, Origin origin,
         std::function<void()> on_end);

    // With the Monitor held:
    void start();
    void interrupt();
    void look_again();
    /// The session is gone, or the daemon ends: nothing more is done for it.
    void drop();
    TurnState state() const;
    bool delivered() const { return consumed_; }
    const store::InputRow& input() const { return origin_.input; }

  private:
    struct Resume {};
    struct CellMoved {};
    using Signal = std::variant<turn::Event, Resume, CellMoved>;
    class Sink;

    void post(Signal signal);
    void work();
    void take(const Signal& signal);
    void feed(const turn::Event& event);
    void resume();
    bool stopped() const;
    void leave();

    /// Until it is kept. Nothing: the turn is to be let go.
    template <class T>
    std::optional<T> settle(std::function<shared::Result<T>(store::Connection&)> work);
    std::optional<journal::Rows> append(std::vector<RowContent> contents);
    bool load_rows();
    bool begin();

    void act(const turn::CheckReady& action);
    void act(const turn::SendRequest& action);
    void act(const turn::CancelRequest& action);
    void act(const turn::RunCell& action);
    void act(const turn::InterruptCell& action);
    void act(const turn::StoreResult& action);
    void act(const turn::SetTimer& action);
    void act(const turn::Report& action);
    void act(const turn::Finish& action);

    shared::Result<std::shared_ptr<const SentRequest>> compose();
    void take_answer(const providers::Completion& completion);
    std::optional<CellHandle> place_cell(const ToolCallRow& row, const turn::RunCell& action);
    void store_result(const TurnCall& call, std::string result);
    bool cell_settled() const;
    void cell_moved();
    void take_cell();

    TurnWorld& world_;
    agents::Monitor& monitor_;
    const std::shared_ptr<Conversation> conversation_;
    const Origin origin_;
    std::function<void()> on_end_;
    providers::CancelToken cancel_;

    // Guarded by the Monitor:
    TurnMachine machine_;
    std::deque<Signal> signals_;
    bool scheduled_ = false;
    bool dropped_ = false;
    bool consumed_ = false;
    bool interrupted_ = false;
    bool unheard_ = false;  // the running cell's interrupt cannot reach its kernel
    bool cell_signalled_ = false;

    // The worker's:
    bool first_check_ = true;
    Transcript transcript_;
    std::optional<ProjectContext> project_;
    std::shared_ptr<const SentRequest> request_;
    std::string broken_off_;  // of an answer that failed after readers saw some of it
    std::int64_t notes_told_ = 0;
    bool told_carried_on_ = false;
    TurnCall running_;
    std::optional<CellHandle> cell_;
    std::optional<Cells::Watch> watch_;
};

}  // namespace sessions
