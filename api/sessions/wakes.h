// What the model of a session is told when something that it started ends while it does nothing: one
// line each, and one prompt for all that ended since. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/store/cells_table.h"
#include "api/store/wakes_table.h"

namespace sessions {

inline constexpr std::size_t kWakesTold = 64;  // in one prompt; as many jobs as may run
inline constexpr const char* kWakeSource = "wake";

/// Names a job's end within its session: the frame that tells it, or that somebody took notice of it.
std::string wake_key(const std::string& run_id, const nlohmann::json& job);
std::string wake_key(const shared::CellId& cell);

/// `job` as the kernel describes one that has ended.
std::string wake_line(const nlohmann::json& job);
/// A cell that went on in the background and has ended.
std::string wake_line(const store::CellRow& cell);

std::string wake_prompt(const std::vector<store::WakeRow>& rows);

}  // namespace sessions
