// The one tool the model has: `python` runs a cell in the session's kernel. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "api/providers/model_request.h"
#include "shared/result.h"

namespace providers {

inline constexpr std::string_view kPythonTool = "python";
inline constexpr std::int64_t kDefaultCellTimeoutMs = 120'000;
inline constexpr std::int64_t kMaxCellTimeoutMs = 24LL * 3600 * 1000;

ToolSpec python_tool();

struct PythonCall {
    std::string code;
    std::int64_t timeout_ms = kDefaultCellTimeoutMs;
};

/// Errors: invalid, in words that let the model do better: wrong tool, arguments that are no JSON
/// object, no code, a timeout that is no number. A timeout out of range is moved into it.
shared::Result<PythonCall> parse_python_call(const std::string& name, const std::string& arguments);

/// The `result` of a call that has none of its own: JSON with `status` ("error", "unknown",
/// "not_run"), the words in `output`, and `value` null.
std::string stand_in_result(const std::string& status, const std::string& words);

}  // namespace providers
