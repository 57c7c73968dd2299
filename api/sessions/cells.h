// Cells as HTTP threads and turns use them: run once by their id, waited for, read, interrupted.
// Everything here may block until its deadline (on the store, on the kernel) and is never called on
// the loop or with the Monitor held.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/sessions/sessions.h"

namespace sessions {

inline constexpr shared::Milliseconds kLateBytes{500};
inline constexpr std::size_t kMaxPage = 1u << 20;  // the keeper's limit for one page

/// A cell that somebody holds. Of one that ended long ago `live` is made from its row alone.
struct CellHandle {
    SessionPtr session;
    std::shared_ptr<LiveCell> live;
};

struct OutputPart {
    std::string bytes;
    std::uint64_t offset = 0;        // of the first byte; beyond the one asked for if some are gone
    std::uint64_t output_bytes = 0;  // of the whole output as far as known
    bool ended = false;              // the cell has ended and nothing follows these bytes
};

class Cells {
  public:
    explicit Cells(Sessions& sessions)
        : sessions_(sessions), monitor_(sessions.world().link.monitor) {}

    /// Runs it, unless a cell with this id was accepted before: then that one. The cell is on its
    /// way when this returns, its row perhaps not on disk yet: see wait_kept(). Errors: not_found
    /// (the session), conflict (same id, other intent), expired, overloaded, storage.
    shared::Result<CellHandle> submit(shared::SessionId session, const CellRequest& request,
                                      shared::TimePoint deadline);
    /// Until its row is on disk. Errors: storage, and the cell may run all the same; timed_out.
    shared::Result<void> wait_kept(const CellHandle& cell, shared::TimePoint deadline);
    /// Until it has ended (or went to the background); its row as it stands then or at the
    /// deadline.
    store::CellRow wait_ended(const CellHandle& cell, shared::TimePoint deadline,
                              bool or_background = false);

    /// Errors: not_found, storage.
    shared::Result<CellHandle> find(shared::SessionId session, shared::CellId id,
                                    shared::TimePoint deadline);
    /// The newest ones first, as they stand now.
    shared::Result<std::vector<store::CellRow>> recent(shared::SessionId session, int limit,
                                                       shared::TimePoint deadline);
    store::CellRow row(const CellHandle& cell);
    /// Ended, and its acceptance on disk or known not to be.
    bool settled(const CellHandle& cell);
    /// The result's shape with what goes on: `blocked` (why it does not start), `interrupting`.
    nlohmann::json describe(const CellHandle& cell);
    shared::Result<void> interrupt(const CellHandle& cell, bool force);

    /// What there is of its output at `offset`, at most `limit` bytes; empty past the end.
    /// Errors: gone with the reason (evicted, kernel gone), unavailable (kernel away), timed_out.
    shared::Result<OutputPart> read(const CellHandle& cell, std::uint64_t offset, std::size_t limit,
                                    shared::TimePoint deadline);
    /// The same for a reader that follows and has a Watch: gives the kernel credit and does not
    /// wait for bytes, so that empty and not `ended` means "not yet". `late`: what was granted of a
    /// finished cell did not come in kLateBytes; it is asked for by a page. Bytes that are gone are
    /// left out: see `offset`.
    shared::Result<OutputPart> follow(const CellHandle& cell, std::uint64_t offset,
                                      std::size_t limit, bool late, shared::TimePoint deadline);

    /// Calls `wake` at every change of that cell while it lives; with the Monitor held.
    class Watch {
      public:
        Watch(Cells& cells, CellHandle cell, std::function<void()> wake);
        Watch(const Watch&) = delete;
        Watch& operator=(const Watch&) = delete;
        ~Watch();

      private:
        Cells& cells_;
        CellHandle cell_;
        std::uint64_t id_;
    };

    /// Counts as a reader of that cell while it lives, so that its output is pulled on.
    class Reader {
      public:
        Reader(Cells& cells, CellHandle cell);
        Reader(const Reader&) = delete;
        Reader& operator=(const Reader&) = delete;
        ~Reader();

      private:
        Cells& cells_;
        CellHandle cell_;
    };

  private:
    shared::Result<CellHandle> repeat(const SessionPtr& session, std::shared_ptr<LiveCell> live,
                                      const CellRequest& request);
    std::optional<OutputPart> held(const LiveCell& cell, std::uint64_t offset,
                                   std::size_t limit) const;
    shared::Result<OutputPart> page(const CellHandle& cell, std::uint64_t offset, std::size_t limit,
                                    shared::TimePoint deadline);

    Sessions& sessions_;
    agents::Monitor& monitor_;
    std::uint64_t next_watch_ = 1;
};

}  // namespace sessions
