#include "api/sessions/cells.h"

#include <algorithm>

#include "api/sessions/operation_ids.h"

namespace sessions {

using shared::CellId;
using shared::Error;
using shared::ErrorCode;
using shared::Monotonic;
using shared::Result;
using shared::SessionId;
using shared::TimePoint;

namespace {
constexpr shared::Milliseconds kLookAgain{500};  // for an attachment, while there is none

bool same_intent(const store::CellRow& row, SessionId session, const CellRequest& request) {
    return row.session == session && row.code == request.code &&
           row.timeout_ms == request.timeout_ms && row.background_ms == request.background_ms;
}

Error conflict() {
    return {ErrorCode::conflict, "operationId was used for something else", {}};
}
}  // namespace

// --- running ------------------------------------------------------------------------------------

/// The Monitor is held: the cell is live already.
Result<CellHandle> Cells::repeat(const SessionPtr& session, std::shared_ptr<LiveCell> live,
                                 const CellRequest& request) {
    if (live->row.session == session->row.id && !live->row.code) {
        live->row.code = request.code;  // adopted: now its sender is known
        live->row.timeout_ms = request.timeout_ms;
        live->row.background_ms = request.background_ms;
        live->kept = false;
        sessions_.world().database.post(
            [row = live->row](store::Connection& connection) {
                return store::claim_cell(connection, row);
            },
            [this, live](const Result<void>& kept) {
                auto lock = monitor_.lock();
                live->kept = kept.ok();
                if (!kept) live->keep_failed = kept.error().message;
                live->notify();
            });
    }
    if (!same_intent(live->row, session->row.id, request)) return conflict();
    return CellHandle{session, std::move(live)};
}

Result<CellHandle> Cells::submit(SessionId session_id, const CellRequest& request,
                                 TimePoint deadline) {
    for (bool asked_store = false;;) {
        {
            auto lock = monitor_.lock();
            const SessionPtr session = sessions_.find(lock, session_id);
            if (!session) return Error{ErrorCode::not_found, "no such session", {}};
            if (const SessionPtr holder = sessions_.holder(lock, request.id)) {
                if (holder != session) return conflict();
                if (auto live = session->find(request.id)) return repeat(session, live, request);
            }
            if (asked_store || sessions_.surely_new(lock, request.id)) {
                auto live = session->submit(request);
                if (!live) return live.error();
                sessions_.note_cell(lock, request.id, session_id);
                return CellHandle{session, std::move(*live)};
            }
        }
        auto earlier = sessions_.world().database.call<std::optional<store::CellRow>>(
            [id = request.id](
                store::Connection& connection) -> Result<std::optional<store::CellRow>> {
                auto operation = store::find_operation(connection, shared::OperationId{id.uuid});
                if (!operation) return operation.error();
                if (*operation) return conflict();
                return store::find_cell(connection, id);
            },
            deadline);
        if (!earlier) return earlier.error();
        if (*earlier) {
            if (!same_intent(**earlier, session_id, request)) return conflict();
            return find(session_id, request.id, deadline);
        }
        if (too_old(shared::OperationId{request.id.uuid}, std::chrono::system_clock::now()))
            return Error{ErrorCode::expired, "operationId is unknown and older than 7 days", {}};
        asked_store = true;
    }
}

Result<void> Cells::wait_kept(const CellHandle& cell, TimePoint deadline) {
    auto lock = monitor_.lock();
    LiveCell& live = *cell.live;
    const auto settled = [&] { return live.kept || !live.keep_failed.empty(); };
    if (!live.changed.wait_until(lock, deadline, settled))
        return Error{ErrorCode::timed_out, "the cell could not be stored in time; it may run", {}};
    if (!live.kept)
        return Error{ErrorCode::storage,
                     "the cell may run but could not be stored: " + live.keep_failed,
                     {}};
    return {};
}

store::CellRow Cells::wait_ended(const CellHandle& cell, TimePoint deadline, bool or_background) {
    auto lock = monitor_.lock();
    LiveCell& live = *cell.live;
    live.changed.wait_until(
        lock, deadline, [&] { return live.finished() || (or_background && live.backgrounded); });
    return live.row;
}

Result<CellHandle> Cells::find(SessionId session_id, CellId id, TimePoint deadline) {
    SessionPtr session;
    {
        auto lock = monitor_.lock();
        session = sessions_.find(lock, session_id);
        if (!session) return Error{ErrorCode::not_found, "no such session", {}};
        if (auto live = session->find(id)) return CellHandle{session, std::move(live)};
    }
    auto row = sessions_.world().database.call<std::optional<store::CellRow>>(
        [id](store::Connection& connection) { return store::find_cell(connection, id); }, deadline);
    if (!row) return row.error();
    if (!*row || (*row)->session != session_id)
        return Error{ErrorCode::not_found, "no such cell in this session", {}};
    auto live = std::make_shared<LiveCell>(std::move(**row), 0);
    live->kept = true;
    return CellHandle{std::move(session), std::move(live)};
}

Result<std::vector<store::CellRow>> Cells::recent(SessionId session_id, int limit,
                                                  TimePoint deadline) {
    auto rows = sessions_.world().database.call<std::vector<store::CellRow>>(
        [session_id, limit](store::Connection& connection) {
            return store::recent_cells(connection, session_id, limit);
        },
        deadline);
    if (!rows) return rows;
    auto lock = monitor_.lock();
    const SessionPtr session = sessions_.find(lock, session_id);
    if (!session) return Error{ErrorCode::not_found, "no such session", {}};
    for (store::CellRow& row : *rows)
        if (const auto live = session->find(row.id)) row = live->row;
    return rows;
}

store::CellRow Cells::row(const CellHandle& cell) {
    auto lock = monitor_.lock();
    return cell.live->row;
}

bool Cells::settled(const CellHandle& cell) {
    auto lock = monitor_.lock();
    return cell.live->finished() && (cell.live->kept || !cell.live->keep_failed.empty());
}

nlohmann::json Cells::describe(const CellHandle& cell) {
    auto lock = monitor_.lock();
    nlohmann::json result = cell_json(cell.live->row);
    result["code"] = cell.live->row.code.value_or("");
    if (cell.live->finished()) return result;
    result["output_bytes"] = cell.live->output.end();  // as far as it came here
    const KernelLink* link = cell.session->link();
    if (link != nullptr && link->state() != LinkState::attached &&
        !link->machine().detail().empty())
        result["blocked"] = link->machine().detail();
    if (cell.live->backgrounded) result["backgrounded"] = true;
    if (cell.live->interrupt_step > 0)
        result["interrupting"] = {{"step", cell.live->interrupt_step},
                                  {"text", cell.live->interrupt_text}};
    return result;
}

Result<void> Cells::interrupt(const CellHandle& cell, bool force) {
    auto lock = monitor_.lock();
    return cell.session->interrupt(*cell.live, force);
}

// --- output -------------------------------------------------------------------------------------

Cells::Reader::Reader(Cells& cells, CellHandle cell) : cells_(cells), cell_(std::move(cell)) {
    auto lock = cells_.monitor_.lock();
    cell_.live->output.add_reader();
}

Cells::Reader::~Reader() {
    auto lock = cells_.monitor_.lock();
    cell_.live->output.drop_reader();
}

/// What needs no question to the kernel. The Monitor is held.
std::optional<OutputPart> Cells::held(const LiveCell& cell, std::uint64_t offset,
                                      std::size_t limit) const {
    OutputPart part;
    part.offset = offset;
    part.output_bytes = std::max(cell.row.output_bytes, cell.output.end());
    if (cell.finished() && offset >= cell.row.output_bytes) {
        part.ended = true;
        return part;
    }
    // The preview of a short output is all of it, unless bytes were replaced to make it text.
    if (cell.finished() && !cell.row.truncated &&
        cell.row.output.size() == cell.row.output_bytes &&
        cell.row.output.find("\xEF\xBF\xBD") == std::string::npos) {
        part.bytes = cell.row.output.substr(offset, limit);
        part.ended = offset + part.bytes.size() >= cell.row.output_bytes;
        return part;
    }
    if (cell.output.begin() <= offset && offset < cell.output.end())
        part.bytes.reserve(std::min<std::uint64_t>(limit, cell.output.end() - offset));
    while (part.bytes.size() < limit) {
        const auto piece = cell.output.read(offset + part.bytes.size(), limit - part.bytes.size());
        if (!piece) break;
        part.bytes += piece->bytes;
    }
    if (part.bytes.empty()) return std::nullopt;
    part.ended = cell.finished() && offset + part.bytes.size() >= cell.row.output_bytes;
    return part;
}

Result<OutputPart> Cells::page(const CellHandle& cell, std::uint64_t offset, std::size_t limit,
                               TimePoint deadline) {
    auto lock = monitor_.lock();
    LiveCell& live = *cell.live;
    Session& session = *cell.session;
    for (;;) {
        PageWait wait;
        std::uint64_t id = 0;
        if (session.ask_page(live.row.id, offset, std::min(limit, kMaxPage), id, wait)) {
            wait.changed.wait_until(lock, deadline, [&] { return wait.answered || wait.cut_off; });
            session.forget_page(id);
            if (wait.answered) {
                if ((wait.flags & 2) != 0)
                    return Error{
                        ErrorCode::gone, wait.bytes.empty() ? "no longer kept" : wait.bytes, {}};
                if ((wait.flags & 4) != 0)
                    return Error{
                        ErrorCode::gone, "the kernel no longer keeps this cell's output", {}};
                OutputPart part;
                part.offset = offset;
                part.bytes = std::move(wait.bytes);
                part.output_bytes = std::max(
                    {live.row.output_bytes, live.output.end(), offset + part.bytes.size()});
                part.ended = (wait.flags & 1) != 0;
                return part;
            }
        } else {
            const KernelLink* link = session.link();
            if (link == nullptr || link->state() == LinkState::lost)
                return Error{ErrorCode::gone, "the kernel is gone, and this output with it", {}};
            // Nothing can come of a kernel that is not there yet.
            if (!link->record().confirmed && live.finished())
                return Error{ErrorCode::gone, "the kernel is gone, and this output with it", {}};
            if (!link->record().confirmed) return OutputPart{{}, offset, 0, false};
            live.changed.wait_until(lock, std::min(deadline, Monotonic::now() + kLookAgain));
        }
        if (Monotonic::now() >= deadline)
            return Error{ErrorCode::unavailable, "the kernel cannot be reached now",
                         session.row.host};
    }
}

Result<OutputPart> Cells::read(const CellHandle& cell, std::uint64_t offset, std::size_t limit,
                               TimePoint deadline) {
    {
        auto lock = monitor_.lock();
        auto part = held(*cell.live, offset, limit);
        // A page is short only where the output ends: what did not come here is still there.
        if (part && (part->bytes.size() == std::min(limit, kMaxPage) ||
                     offset + part->bytes.size() >= part->output_bytes))
            return std::move(*part);
    }
    return page(cell, offset, limit, deadline);
}

Result<OutputPart> Cells::follow(const CellHandle& cell, std::uint64_t offset, std::size_t limit,
                                 bool late, TimePoint deadline) {
    LiveCell& live = *cell.live;
    {
        auto lock = monitor_.lock();
        const bool current = cell.session->find(live.row.id) == cell.live;
        if (current) cell.session->pull(live, offset);
        if (auto part = held(live, offset, limit)) return std::move(*part);
        if (current && offset >= live.output.begin() && !(late && live.finished()))
            return OutputPart{{}, offset, live.output.end(), false};
    }
    auto part = page(cell, offset, limit, deadline);
    if (part || part.error().code != ErrorCode::gone) return part;
    // Gone: go on with the first bytes that are there.
    auto lock = monitor_.lock();
    if (offset < live.output.begin())
        if (auto next = held(live, live.output.begin(), limit)) return std::move(*next);
    if (live.finished()) return OutputPart{{}, live.row.output_bytes, live.row.output_bytes, true};
    return part;
}

Cells::Watch::Watch(Cells& cells, CellHandle cell, std::function<void()> wake)
    : cells_(cells), cell_(std::move(cell)) {
    auto lock = cells_.monitor_.lock();
    id_ = cells_.next_watch_++;
    cell_.live->watchers[id_] = std::move(wake);
}

Cells::Watch::~Watch() {
    auto lock = cells_.monitor_.lock();
    cell_.live->watchers.erase(id_);
}

}  // namespace sessions
