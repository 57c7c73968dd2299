// All sessions of the daemon: makes, finds and ends them, and tells them what happens to their
// hosts. Guarded by the Monitor where a Lock is asked for; the others block on the store and are
// for HTTP threads and turns, never for the loop.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/sessions/session.h"
#include "api/store/operations_table.h"

namespace sessions {

using SessionPtr = std::shared_ptr<Session>;

class Sessions : public agents::HostListener {
  public:
    using Lock = agents::Monitor::Lock;
    explicit Sessions(SessionWorld& world);
    ~Sessions() override;

    /// Before the loop runs: everything on record. Errors: storage.
    shared::Result<void> load();
    /// Once the loop runs: every kernel on record is attached in the background, kernels to end
    /// ended.
    void begin();
    /// Kernels are detached and stay.
    void detach_all();

    SessionPtr find(const Lock& lock, shared::SessionId id) const;
    /// Most recently used first.
    std::vector<store::SessionRow> list(const Lock& lock) const;

    /// Stores the session and its receipt in one transaction. With a receipt of the same id and
    /// intent: what that one made. Errors: conflict, expired, storage.
    shared::Result<store::SessionRow> create(store::SessionRow row, shared::OperationId operation,
                                             const std::string& intent, shared::TimePoint deadline);
    /// What a request with this id and intent made before, if it did. Errors: conflict, storage.
    shared::Result<std::optional<store::SessionRow>> created(shared::OperationId operation,
                                                             const std::string& intent,
                                                             shared::TimePoint deadline);
    shared::Result<store::SessionRow> rename(shared::SessionId id, const std::string& name,
                                             shared::TimePoint deadline);
    /// Ends the kernel on its host (later, if that is away) and removes every row but receipts.
    shared::Result<void> remove(shared::SessionId id, shared::TimePoint deadline);
    /// The session goes on in another folder; its kernel is ended. Errors: conflict while busy.
    shared::Result<store::SessionRow> move(shared::SessionId id, const store::SessionRow& to,
                                           shared::TimePoint deadline);

    // Ids: whether one was ever used, without asking the store each time.
    /// The session that has this live cell.
    SessionPtr holder(const Lock& lock, shared::CellId id) const;
    /// No row of any table can have this id.
    bool surely_new(const Lock&, shared::CellId id) const { return id > known_until_; }
    void note_cell(const Lock&, shared::CellId id, shared::SessionId session) {
        live_[id] = session;
    }
    void note_id(const Lock&, shared::Uuid id);

    SessionWorld& world() { return world_; }

    /// What turns have to hear; called with the Monitor held.
    struct Hooks {
        std::function<void(shared::SessionId)> removed;
        std::function<void(shared::SessionId, const std::string& detail)> kernel_gone;
        /// Something about the kernel that both the person and the model should know.
        std::function<void(shared::SessionId, const std::string& text)> kernel_note;
        /// What the kernel says of a job.
        std::function<void(shared::SessionId, const nlohmann::json& job)> job;
        /// A wake was stored for this session.
        std::function<void(shared::SessionId)> wake;
        std::function<void(const std::string& host)> host_changed;
    };
    void set_hooks(Hooks hooks) { hooks_ = std::move(hooks); }

    // agents::HostListener
    void channel_up(agents::HostEnd& host) override;
    void channel_down(agents::HostEnd& host) override;
    void host_reported(agents::HostEnd& host, shared::HostState was) override;

  private:
    SessionPtr add(store::SessionRow row);
    void release(shared::SessionId id, const nlohmann::json& report);
    void end(const store::EndingRow& ending);
    void try_ending(const std::string& run_id);

    struct Ending {
        store::EndingRow row;
        bool asked = false;
    };
    SessionWorld& world_;
    Hooks hooks_;
    std::map<shared::SessionId, SessionPtr> sessions_;
    std::map<std::string, Ending> endings_;
    std::map<shared::CellId, shared::SessionId> live_;
    shared::CellId known_until_;  // ids above it are in no table, or in live_
};

}  // namespace sessions
