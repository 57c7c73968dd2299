// One live session: its kernel on record, the link to it, its cells. Turns link events into cell
// states and rows; decides when a kernel is made and what becomes of cells when it goes.
//
// Everything wants the Monitor held and never blocks. Disk work is posted to the store; its
// completion takes the Monitor and goes on. What is told to waiters goes through each cell's
// `changed`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "api/metrics/metrics.h"
#include "api/sessions/kernel_calls.h"
#include "api/sessions/kernel_link.h"
#include "api/sessions/live_cell.h"
#include "api/store/database.h"
#include "api/store/kernel_calls_table.h"
#include "api/store/sessions_table.h"
#include "shared/process_page.h"

namespace sessions {

inline constexpr std::size_t kFinishedCellsKept = 16;  // live; as many as the keeper keeps logs of
inline constexpr std::size_t kUnfinishedCells = 256;   // per session; more are refused

/// What all sessions share.
struct SessionWorld {
    LinkWorld link;
    store::Database& database;
    KernelCalls& calls;
    shared::ProcessPage& page;
    metrics::Metrics& metrics;
};

struct CellRequest {
    shared::CellId id;
    std::string code;
    std::int64_t timeout_ms = 0;
    std::int64_t background_ms = 0;
    bool maybe_sent = false;  // an earlier api may have sent it: only for the kernel of then
};

/// A page of output, or a query, asked of the kernel; on the stack of the thread that waits.
struct PageWait {
    std::condition_variable changed;
    bool answered = false;
    bool cut_off = false;  // the attachment ended first
    std::uint8_t flags = 0;
    std::string bytes;
};

class Session : public KernelLink::Delegate, public std::enable_shared_from_this<Session> {
  public:
    using CellPtr = std::shared_ptr<LiveCell>;

    Session(const SessionWorld& world, store::SessionRow row);
    ~Session() override;

    store::SessionRow row;
    /// Why no kernel could be started last time; empty otherwise.
    const std::string& start_failure() const { return start_failure_; }
    const KernelLink* link() const { return link_.get(); }
    const nlohmann::json& worker() const { return worker_; }
    /// Those that run, as the kernel describes them.
    const std::map<std::int64_t, nlohmann::json>& jobs() const { return jobs_; }

    // Recovery, before the loop runs: the kernel on record, then unfinished cells and calls in
    // order.
    void restore_kernel(KernelRecord record);
    void restore_cell(store::CellRow cell);
    void restore_call(const store::KernelCallRow& call);
    /// Begins to attach, or starts the kernel for cells that wait.
    void begin();

    /// A new cell: on its way to the kernel and to the store when this returns; `kept` is set
    /// later. Errors: overloaded.
    shared::Result<CellPtr> submit(const CellRequest& request);
    CellPtr find(shared::CellId id) const;
    const std::map<shared::CellId, CellPtr>& cells() const { return cells_; }
    /// A cell is not finished.
    bool has_open_cell() const;
    bool busy() const { return turn_open || has_open_cell(); }
    /// Errors: overloaded. Nothing happens to a cell that has ended.
    shared::Result<void> interrupt(LiveCell& cell, bool force);
    /// Somebody reads this cell at `offset`: gives the kernel credit if that is due.
    void pull(LiveCell& cell, std::uint64_t offset);
    /// False when there is no attachment now.
    bool ask_page(shared::CellId cell, std::uint64_t offset, std::size_t limit, std::uint64_t& id,
                  PageWait& wait);
    /// The same with a question {"op", ...}; the answer's JSON is in `bytes`.
    bool ask_query(nlohmann::json question, std::uint64_t& id, PageWait& wait);
    void forget_page(std::uint64_t id) { pages_.erase(id); }

    void on_host_news();  // its channel is up, or its state changed for the better
    void on_channel_lost();
    /// Ends the kernel for good: cells unfinished become `lost`. The record of the kernel to end on
    /// its host, if there is one; the caller keeps it until that is done.
    std::optional<store::EndingRow> end_kernel();
    /// Asks the kernel to keep its names for the next one, so that it can be ended; its answer comes
    /// by on_kernel_released. False: not now (no attachment, a cell or a job).
    bool ask_release();
    /// Cuts the attachment; the kernel stays.
    void detach();

    // KernelLink::Delegate
    void link_changed() override;
    void link_confirmed() override;
    void hello(const nlohmann::json& hello) override;
    void control(FrameNumber number, const nlohmann::json& frame) override;
    void output(const std::string& cell_bytes, std::uint64_t offset,
                std::shared_ptr<const std::string> payload, std::size_t skip) override;
    void page(std::string payload) override;
    void query(const std::string& payload) override;
    void answered(std::uint64_t call) override;
    void gone(const std::string& detail) override;
    void failed(const std::string& detail) override;
    void detached() override;
    nlohmann::json credits() override;

    /// Called when a finished cell leaves `cells()`; for whoever must know all ids.
    std::function<void(shared::CellId)> on_evicted;
    /// Called when a kernel that was attached once is proved gone.
    std::function<void(const std::string& detail)> on_kernel_gone;
    /// Called when the kernel has kept its names and nothing came since: it may be ended.
    std::function<void(const nlohmann::json& report)> on_kernel_released;
    /// Called with what a new kernel found of its predecessor's names.
    std::function<void(const nlohmann::json& report)> on_kernel_restored;
    /// Called with what the kernel says of a job.
    std::function<void(const nlohmann::json& job)> on_job;
    /// Called when something that a turn's cell started has ended and that is stored as a wake.
    std::function<void()> on_wake;
    /// A prompt waits or a turn is under way; kept by Turns.
    bool turn_open = false;

  private:
    using Effect = std::function<shared::Result<void>(store::Connection&)>;
    /// `after`, if it was kept: with the Monitor held, while this session lives.
    void keep(FrameNumber number, Effect effect, std::function<void()> after = nullptr);
    void keep_job(FrameNumber number, const nlohmann::json& job);
    void lose_jobs();
    void owe(std::string key, std::string text, shared::CellId started_by);
    void make_kernel();
    void replace_link(KernelRecord record);
    void drop_link();
    nlohmann::json execute_frame(const LiveCell& cell, std::uint64_t credit) const;
    void take_done(LiveCell& cell, const nlohmann::json& frame);
    void take_call(FrameNumber number, const nlohmann::json& frame);
    void begin_call(const std::string& run_id, std::uint64_t call, const std::string& method,
                    nlohmann::json args);
    CellPtr adopt(shared::CellId id);
    void take_job(const nlohmann::json& job);
    void save(const LiveCell& cell);
    void finish(LiveCell& cell, store::CellStatus status, const std::string& name = {},
                const std::string& message = {});
    void evict();

    const SessionWorld& world_;
    std::shared_ptr<KernelLink> link_;
    bool kernel_kept_ = false;  // the record is on disk, so the kernel may be started
    std::map<shared::CellId, CellPtr> cells_;
    std::map<std::uint64_t, PageWait*> pages_;
    std::uint64_t next_page_ = 1;
    std::string start_failure_;
    nlohmann::json worker_;
    std::map<std::int64_t, nlohmann::json> jobs_;
    std::optional<shared::TimePoint> away_since_;  // the connection to the kernel broke
};

}  // namespace sessions
