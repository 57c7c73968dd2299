// Table `wakes`: ends that a session's model is to hear of by a turn of its own (a job, a cell that
// went on in the background). Each is told once; told ones stay known for a while, since a kernel
// may report the end of a job that outlives kernels more than once. Goes with its session. Store
// thread only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/store/database.h"
#include "shared/ids.h"
#include "shared/result.h"

namespace store {

struct WakeRow {
    std::int64_t id = 0;
    shared::SessionId session;
    std::string key;   // what has ended; unique within the session
    std::string text;  // one line for the model
    std::int64_t created_ms = 0;
};

std::string wakes_schema();

inline constexpr std::int64_t kWakesOwed = 256;  // per session: a host may say what it likes

/// Nothing happens when the key is known, told or not, nor when kWakesOwed are not told yet.
shared::Result<void> insert_wake(Connection& connection, const WakeRow& row);
/// The model heard of it otherwise. Nothing happens when it was told or is not known.
shared::Result<void> retire_wake(Connection& connection, shared::SessionId session,
                                 const std::string& key);
/// Those not told yet, in order, at most `limit`.
shared::Result<std::vector<WakeRow>> owed_wakes(Connection& connection, shared::SessionId session,
                                                std::size_t limit);
/// Sessions with any not told.
shared::Result<std::vector<shared::SessionId>> sessions_owed_wakes(Connection& connection);
/// Those up to and with `through` have been told; long told ones go.
shared::Result<void> wakes_told(Connection& connection, shared::SessionId session,
                                std::int64_t through, std::int64_t now_ms);

}  // namespace store
