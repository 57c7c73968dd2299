// The part of a turn that runs the model's calls as cells.
#include "api/providers/python_tool.h"
#include "api/sessions/turn.h"
#include "api/sessions/turn_request.h"
#include "api/sessions/wakes.h"

namespace sessions {

using shared::ErrorCode;
using shared::Monotonic;

namespace {
constexpr shared::Milliseconds kCellDeadline{15'000};  // for the store, not for the cell
constexpr shared::Milliseconds kAskAgain{1000};
constexpr const char* kUnknown =
    "Nobody knows whether this ran, or how far: look before you repeat it.";
}  // namespace

void Turn::store_result(const TurnCall& call, std::string result) {
    std::string name(providers::kPythonTool);
    for (const auto& row : transcript_.rows())
        if (row.seq == call.row)
            if (const auto* made = std::get_if<ToolCallRow>(&row.content)) name = made->name;
    (void)append({ToolResultRow{call.row, name, std::move(result)}});
}

/// The call's cell: run now, or the one that an earlier api ran. Nothing: its result is stored.
std::optional<CellHandle> Turn::place_cell(const ToolCallRow& row, const turn::RunCell& action) {
    const auto give = [&](const char* status, const std::string& words) {
        store_result(action.call, providers::stand_in_result(status, words));
        return std::nullopt;
    };
    const auto parsed = providers::parse_python_call(row.name, row.arguments);
    if (!parsed) return give("error", parsed.error().message);
    CellRequest request{action.call.cell, parsed->code, parsed->timeout_ms,
                        world_.background.count(), false};
    while (action.rejoin) {
        auto found =
            world_.cells.find(conversation_->session, request.id, Monotonic::now() + kCellDeadline);
        if (found) return std::move(*found);
        if (found.error().code == ErrorCode::not_found) break;
        if (stopped() || !world_.workers.pause(kAskAgain)) return std::nullopt;
    }
    if (action.rejoin) {
        // No row: it was not on disk yet when the earlier api ended, but may have left for the
        // kernel of then, which knows the ids it ran. Without that kernel nobody can tell.
        auto lock = monitor_.lock();
        if (interrupted_) {
            lock.unlock();
            return give("unknown", kUnknown);
        }
        const auto session = world_.sessions.find(lock, conversation_->session);
        const auto* link = session ? session->link() : nullptr;
        const auto& then = conversation_->kernel_at_start;
        const bool same =
            link != nullptr && link->state() != LinkState::lost && link->record().run_id == then;
        if (!then.empty() && !same) {
            lock.unlock();
            return give("unknown", kUnknown);
        }
        request.maybe_sent = !then.empty();
    }
    auto handle =
        world_.cells.submit(conversation_->session, request, Monotonic::now() + kCellDeadline);
    if (!handle) return give("not_run", handle.error().message);
    return std::move(*handle);
}

void Turn::act(const turn::RunCell& action) {
    running_ = action.call;
    {
        auto lock = monitor_.lock();
        cell_signalled_ = unheard_ = false;
    }
    const ToolCallRow* row = nullptr;
    for (const auto& each : transcript_.rows())
        if (each.seq == action.call.row) row = std::get_if<ToolCallRow>(&each.content);
    cell_ = row != nullptr ? place_cell(*row, action) : std::nullopt;
    if (!cell_) {
        auto lock = monitor_.lock();
        return post(turn::Event(turn::CellEnded{action.call.row}));
    }
    // It lives no longer than this turn and is called with the Monitor held.
    watch_.emplace(world_.cells, *cell_, [this] { cell_moved(); });
    auto lock = monitor_.lock();
    cell_moved();
}

void Turn::act(const turn::InterruptCell&) {
    if (!cell_) return;
    // At the outbox's bound it is not told; the cell's own deadline still holds.
    (void)world_.cells.interrupt(*cell_, false);
    world_.sessions.world().link.loop.at(
        Monotonic::now() + kInterruptHeard, [weak = weak_from_this()] {
            const auto self = weak.lock();
            if (!self) return;
            auto lock = self->monitor_.lock();
            const auto session = self->world_.sessions.find(lock, self->conversation_->session);
            const auto* link = session ? session->link() : nullptr;
            if (link != nullptr && link->state() == LinkState::attached) return;
            self->unheard_ = true;
            if (!std::exchange(self->cell_signalled_, true)) self->post(CellMoved{});
        });
}

/// The Monitor is held.
bool Turn::cell_settled() const {
    const LiveCell& live = *cell_->live;
    return live.finished() || live.backgrounded || unheard_ ||
           (interrupted_ && live.interrupt_step >= 4);
}

/// The Monitor is held.
void Turn::cell_moved() {
    if (cell_signalled_ || !cell_settled()) return;
    cell_signalled_ = true;
    post(CellMoved{});
}

void Turn::take_cell() {
    if (!cell_) return;
    std::string result;
    {
        auto lock = monitor_.lock();
        const LiveCell& live = *cell_->live;
        if (live.finished() && live.backgrounded)  // it is told here and now
            world_.sessions.world().database.post(
                [session = conversation_->session, key = wake_key(live.row.id)](
                    store::Connection& connection) {
                    return store::retire_wake(connection, session, key);
                },
                [](const shared::Result<void>&) {});
        if (live.finished())
            result = tool_result(live, "", "");
        else if (live.backgrounded)
            result = tool_result(live, "backgrounded",
                                 "It runs on. Look at it later; do not start it again.");
        else if (unheard_)
            result = tool_result(live, "unknown",
                                 "The host is away; the interrupt waits for it. Look at what this "
                                 "cell did before you repeat it.");
        else
            result = tool_result(live, "running", live.interrupt_text);
    }
    watch_.reset();
    cell_.reset();
    store_result(running_, std::move(result));
    feed(turn::Event(turn::CellEnded{running_.row}));
}

}  // namespace sessions
