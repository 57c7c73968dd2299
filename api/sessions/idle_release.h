// Kernels that nobody uses give their memory back: which are idle, and what is told of it.
//
// A kernel is idle while its session has no turn, no cell and no job. After the given time it is
// asked to keep its names on its own host, and ended once it says that it did; the session's next
// cell starts a kernel that takes them up. One that cannot keep its names is left running. By the
// same means a kernel of an older bundle makes room for one of the newer.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "api/agents/loop.h"
#include "api/sessions/sessions.h"

namespace sessions {

/// What people and model are told. `report` comes from the kernel and is not trusted.
std::string released_note(const nlohmann::json& report);
std::string restored_note(const nlohmann::json& report);

/// Whether this kernel was started by another bundle than its host has now.
bool is_stale(const KernelLink& link, const shared::HostReport& host);

class IdleRelease {
  public:
    /// `idle` of zero: only stale ones. Both must outlive the loop's run.
    IdleRelease(Sessions& sessions, agents::Loop& loop, std::chrono::seconds idle);
    /// From now on. Before the loop runs, or on its thread.
    void begin();

  private:
    struct Quiet {
        shared::TimePoint since;
        std::int64_t used_ms = 0;  // of the session then: a cell that came and went shows here
    };
    void look();
    /// How long that session's kernel may be idle; none: for ever. The Monitor is held.
    std::optional<shared::Milliseconds> patience(const Session& session) const;

    Sessions& sessions_;
    agents::Loop& loop_;
    const std::chrono::seconds idle_;
    std::map<shared::SessionId, Quiet> quiet_;
};

}  // namespace sessions
