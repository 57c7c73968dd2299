#include "api/sessions/sessions.h"

#include <algorithm>
#include <utility>

#include "api/sessions/idle_release.h"
#include "api/sessions/operation_ids.h"
#include "shared/log.h"

namespace sessions {

using shared::CellId;
using shared::Error;
using shared::ErrorCode;
using shared::Result;
using shared::SessionId;

namespace {
constexpr shared::Milliseconds kEndingDeadline{30'000};  // the ladder over ssh has 15 s
constexpr shared::Milliseconds kEndingAgain{60'000};     // and if the host answers with a failure

Error no_session() {
    return {ErrorCode::not_found, "no such session", {}};
}
}  // namespace

Sessions::Sessions(SessionWorld& world) : world_(world) {}
Sessions::~Sessions() {
    detach_all();
}

SessionPtr Sessions::add(store::SessionRow row) {
    const SessionId id = row.id;
    auto session = std::make_shared<Session>(world_, std::move(row));
    session->on_evicted = [this](CellId cell) {
        live_.erase(cell);
        known_until_ = std::max(known_until_, cell);
    };
    session->on_kernel_gone = [this, id](const std::string& detail) {
        if (hooks_.kernel_gone) hooks_.kernel_gone(id, detail);
    };
    session->on_kernel_released = [this, id](const nlohmann::json& report) { release(id, report); };
    session->on_kernel_restored = [this, id](const nlohmann::json& report) {
        if (hooks_.kernel_note) hooks_.kernel_note(id, restored_note(report));
    };
    session->on_job = [this, id](const nlohmann::json& job) {
        if (hooks_.job) hooks_.job(id, job);
    };
    session->on_wake = [this, id] {
        if (hooks_.wake) hooks_.wake(id);
    };
    sessions_[id] = session;
    return session;
}

Result<void> Sessions::load() {
    struct Everything {
        std::vector<store::SessionRow> sessions;
        std::vector<store::KernelRow> kernels;
        std::vector<store::CellRow> cells;
        std::vector<store::KernelCallRow> calls;
        std::vector<store::EndingRow> endings;
        std::optional<CellId> newest_cell;
        std::optional<shared::OperationId> newest_operation;
    };
    auto loaded = world_.database.call<Everything>(
        [](store::Connection& connection) -> Result<Everything> {
            Everything all;
            const auto take = [](auto& into, auto result) -> std::optional<Error> {
                if (!result) return result.error();
                into = std::move(*result);
                return std::nullopt;
            };
            if (auto failed = take(all.sessions, store::all_sessions(connection))) return *failed;
            if (auto failed = take(all.kernels, store::all_kernels(connection))) return *failed;
            if (auto failed = take(all.cells, store::unfinished_cells(connection))) return *failed;
            if (auto failed = take(all.calls, store::all_calls(connection))) return *failed;
            if (auto failed = take(all.endings, store::all_endings(connection))) return *failed;
            if (auto failed = take(all.newest_cell, store::newest_cell_id(connection)))
                return *failed;
            if (auto failed = take(all.newest_operation, store::newest_operation_id(connection)))
                return *failed;
            return all;
        },
        shared::Monotonic::now() + std::chrono::seconds(60));
    if (!loaded) return loaded.error();
    auto lock = world_.link.monitor.lock();
    if (loaded->newest_cell) note_id(lock, loaded->newest_cell->uuid);
    if (loaded->newest_operation) note_id(lock, loaded->newest_operation->uuid);
    for (auto& row : loaded->sessions) add(std::move(row));
    for (auto& kernel : loaded->kernels)
        if (auto session = find(lock, kernel.session)) session->restore_kernel(std::move(kernel));
    for (auto& cell : loaded->cells) {
        live_[cell.id] = cell.session;
        if (auto session = find(lock, cell.session)) session->restore_cell(std::move(cell));
    }
    for (auto& ending : loaded->endings) endings_[ending.run_id] = {ending, false};
    // Calls begin with begin(): whoever answers them must be up.
    for (const auto& call : loaded->calls)
        for (auto& [id, session] : sessions_)
            if (session->link() && session->link()->record().run_id == call.run_id)
                world_.link.loop.post([session = session, call] { session->restore_call(call); });
    return {};
}

void Sessions::begin() {
    auto lock = world_.link.monitor.lock();
    for (auto& [id, session] : sessions_) session->begin();
    for (auto& [run_id, ending] : endings_) try_ending(run_id);
}

void Sessions::detach_all() {
    auto lock = world_.link.monitor.lock();
    for (auto& [id, session] : sessions_) session->detach();
}

SessionPtr Sessions::find(const Lock&, SessionId id) const {
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second;
}

std::vector<store::SessionRow> Sessions::list(const Lock&) const {
    std::vector<store::SessionRow> rows;
    rows.reserve(sessions_.size());
    for (const auto& [id, session] : sessions_) rows.push_back(session->row);
    std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
        return std::tie(a.used_ms, a.id) > std::tie(b.used_ms, b.id);
    });
    return rows;
}

Result<store::SessionRow> Sessions::create(store::SessionRow row, shared::OperationId operation,
                                           const std::string& intent, shared::TimePoint deadline) {
    {
        auto lock = world_.link.monitor.lock();
        if (holder(lock, CellId{operation.uuid}))
            return Error{ErrorCode::conflict, "operationId belongs to a cell", {}};
        note_id(lock, operation.uuid);
    }
    using Made = std::optional<store::SessionRow>;  // absent: the receipt tells which
    struct Outcome {
        Made made;
        std::string earlier;  // id of the session that an earlier request made
    };
    auto outcome = world_.database.call<Outcome>(
        [row, operation, intent](store::Connection& connection) -> Result<Outcome> {
            auto known = store::find_operation(connection, operation);
            if (!known) return known.error();
            if (*known) {
                if ((*known)->kind != "session" || (*known)->intent != intent)
                    return Error{
                        ErrorCode::conflict, "operationId was used for something else", {}};
                return Outcome{std::nullopt, (*known)->result};
            }
            auto cell = store::find_cell(connection, CellId{operation.uuid});
            if (!cell) return cell.error();
            if (*cell) return Error{ErrorCode::conflict, "operationId belongs to a cell", {}};
            if (too_old(operation, std::chrono::system_clock::now()))
                return Error{ErrorCode::expired, "operationId is older than 7 days", {}};
            if (auto inserted = store::insert_session(connection, row); !inserted)
                return inserted.error();
            auto fresh = store::insert_operation(
                connection, {operation, "session", intent, row.id.text(), row.created_ms});
            if (!fresh) return fresh.error();
            return Outcome{row, {}};
        },
        deadline);
    if (!outcome) return outcome.error();
    auto lock = world_.link.monitor.lock();
    if (outcome->made) return add(std::move(*outcome->made))->row;
    const auto id = SessionId::parse(outcome->earlier);
    // The other request's thread may still be on its way to add(); the row is the same.
    if (id)
        if (auto session = find(lock, *id)) return session->row;
    row.id = id.value_or(row.id);
    return row;
}

Result<std::optional<store::SessionRow>> Sessions::created(shared::OperationId operation,
                                                           const std::string& intent,
                                                           shared::TimePoint deadline) {
    auto known = world_.database.call<std::optional<store::OperationRow>>(
        [operation](store::Connection& connection) {
            return store::find_operation(connection, operation);
        },
        deadline);
    if (!known) return known.error();
    if (!*known) return std::optional<store::SessionRow>();
    if ((*known)->kind != "session" || (*known)->intent != intent)
        return Error{ErrorCode::conflict, "operationId was used for something else", {}};
    const auto id = SessionId::parse((*known)->result);
    auto lock = world_.link.monitor.lock();
    if (id)
        if (auto session = find(lock, *id)) return std::optional(session->row);
    return std::optional<store::SessionRow>();
}

Result<store::SessionRow> Sessions::rename(SessionId id, const std::string& name,
                                           shared::TimePoint deadline) {
    store::SessionRow row;
    {
        auto lock = world_.link.monitor.lock();
        const auto session = find(lock, id);
        if (!session) return no_session();
        row = session->row;
    }
    row.name = name;
    auto kept = world_.database.call<bool>(
        [row](store::Connection& connection) -> Result<bool> {
            if (auto updated = store::update_session(connection, row); !updated)
                return updated.error();
            return true;
        },
        deadline);
    if (!kept) return kept.error();
    auto lock = world_.link.monitor.lock();
    const auto session = find(lock, id);
    if (!session) return no_session();
    session->row.name = name;
    return session->row;
}

Result<void> Sessions::remove(SessionId id, shared::TimePoint deadline) {
    std::optional<store::EndingRow> ending;
    SessionPtr session;
    {
        auto lock = world_.link.monitor.lock();
        session = find(lock, id);
        if (!session) return no_session();
        sessions_.erase(id);
        if (hooks_.removed) hooks_.removed(id);
        for (const auto& [cell, live] : session->cells()) {
            live_.erase(cell);
            known_until_ = std::max(known_until_, cell);
        }
        ending = session->end_kernel();
    }
    auto kept = world_.database.call<bool>(
        [id, ending](store::Connection& connection) -> Result<bool> {
            if (ending)
                if (auto inserted = store::insert_ending(connection, *ending); !inserted)
                    return inserted.error();
            if (auto deleted = store::delete_session(connection, id); !deleted)
                return deleted.error();
            return true;
        },
        deadline);
    if (!kept) return kept.error();
    if (ending) end(*ending);
    return {};
}

Result<store::SessionRow> Sessions::move(SessionId id, const store::SessionRow& to,
                                         shared::TimePoint deadline) {
    std::optional<store::EndingRow> ending;
    store::SessionRow row;
    {
        auto lock = world_.link.monitor.lock();
        const auto session = find(lock, id);
        if (!session) return no_session();
        if (session->busy()) return Error{ErrorCode::conflict, "the session is busy", {}};
        ending = session->end_kernel();
        session->row.workspace = to.workspace;
        session->row.host = to.host;
        session->row.path = to.path;
        row = session->row;
    }
    auto kept = world_.database.call<bool>(
        [row, ending](store::Connection& connection) -> Result<bool> {
            if (ending) {
                if (auto gone = store::delete_kernel(connection, ending->run_id); !gone)
                    return gone.error();
                if (auto inserted = store::insert_ending(connection, *ending); !inserted)
                    return inserted.error();
            }
            if (auto updated = store::update_session(connection, row); !updated)
                return updated.error();
            return true;
        },
        deadline);
    if (!kept) return kept.error();
    if (ending) end(*ending);
    return row;
}

SessionPtr Sessions::holder(const Lock& lock, CellId id) const {
    const auto found = live_.find(id);
    return found == live_.end() ? nullptr : find(lock, found->second);
}

void Sessions::note_id(const Lock&, shared::Uuid id) {
    known_until_.uuid = std::max(known_until_.uuid, id);
}

// --- kernels to end -----------------------------------------------------------------------------

/// Its kernel has kept its names: ends it. A crash before this is stored finds it as it was.
void Sessions::release(SessionId id, const nlohmann::json& report) {
    const auto session = find({}, id);
    if (!session) return;
    const auto ending = session->end_kernel();
    if (!ending) return;
    endings_[ending->run_id] = {*ending, false};
    world_.database.post(
        [ending = *ending](store::Connection& connection) -> Result<void> {
            if (auto gone = store::delete_kernel(connection, ending.run_id); !gone) return gone;
            return store::insert_ending(connection, ending);
        },
        [this, run_id = ending->run_id](const Result<void>&) {
            auto lock = world_.link.monitor.lock();
            try_ending(run_id);
        });
    if (hooks_.kernel_note) hooks_.kernel_note(id, released_note(report));
}

void Sessions::end(const store::EndingRow& ending) {
    auto lock = world_.link.monitor.lock();
    endings_[ending.run_id] = {ending, false};
    try_ending(ending.run_id);
}

/// One request at a time; what fails is tried again with the host's next news or a minute later.
void Sessions::try_ending(const std::string& run_id) {
    const auto found = endings_.find(run_id);
    if (found == endings_.end() || found->second.asked) return;
    auto* host = world_.link.hosts.need({}, found->second.row.host);
    if (host == nullptr) return;
    shared::EndKernel request;
    request.run = found->second.row.run;
    request.deadline_ms = shared::monotonic_ms(shared::Monotonic::now() + kEndingDeadline);
    std::uint64_t call = 0;
    const auto done = [this, run_id](Result<shared::Answer> answer) {
        const auto ended = endings_.find(run_id);
        if (ended == endings_.end()) return;
        ended->second.asked = false;
        if (answer && (answer->ok || answer->code == ErrorCode::gone)) {
            endings_.erase(ended);
            world_.database.post(
                [run_id](store::Connection& connection) {
                    return store::delete_ending(connection, run_id);
                },
                [](const Result<void>&) {});
            return;
        }
        world_.link.loop.at(shared::Monotonic::now() + kEndingAgain, [this, run_id] {
            auto lock = world_.link.monitor.lock();
            try_ending(run_id);
        });
    };
    if (host->call(request, done, call)) {
        found->second.asked = true;
        // An agent that never answers does not keep the record from being tried again.
        world_.link.loop.at(shared::Monotonic::now() + kEndingDeadline * 2,
                            [this, run_id, host, call] {
                                auto lock = world_.link.monitor.lock();
                                const auto waiting = endings_.find(run_id);
                                if (waiting == endings_.end() || !waiting->second.asked) return;
                                host->cancel(call);
                                waiting->second.asked = false;
                                try_ending(run_id);
                            });
    }
}

// --- hosts --------------------------------------------------------------------------------------

void Sessions::channel_up(agents::HostEnd& host) {
    for (auto& [id, session] : sessions_)
        if (session->row.host == host.name()) session->on_host_news();
    for (auto& [run_id, ending] : endings_)
        if (ending.row.host == host.name()) try_ending(run_id);
}

void Sessions::channel_down(agents::HostEnd& host) {
    for (auto& [id, session] : sessions_)
        if (session->row.host == host.name()) session->on_channel_lost();
}

void Sessions::host_reported(agents::HostEnd& host, shared::HostState was) {
    const bool better =
        host.report().state == shared::HostState::ready && was != host.report().state;
    for (auto& [id, session] : sessions_) {
        if (session->row.host != host.name()) continue;
        if (better) session->on_host_news();
    }
    if (was != host.report().state && hooks_.host_changed) hooks_.host_changed(host.name());
    if (!better) return;
    for (auto& [run_id, ending] : endings_)
        if (ending.row.host == host.name()) try_ending(run_id);
}

}  // namespace sessions
