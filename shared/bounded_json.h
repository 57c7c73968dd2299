// JSON from somebody nobody trusts: a host, a kernel, a provider. Parsing does not recurse, but
// writing and comparing do, so depth is bounded before anything is built.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace shared {

inline constexpr int kMaxJsonDepth = 128;

/// The value, or a discarded one (`is_discarded()`, which is no object either) for what is broken
/// or nested deeper than `max_depth`. Never throws but for memory.
nlohmann::json parse_bounded_json(std::string_view text, int max_depth = kMaxJsonDepth);

}  // namespace shared
