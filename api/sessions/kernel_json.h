// JSON that comes from a kernel, so from a host that nobody trusts.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "shared/result.h"

namespace sessions {

/// One JSON object. Errors: protocol (not JSON, not an object, nested deeper than shared::kMaxJsonDepth).
shared::Result<nlohmann::json> parse_kernel_json(std::string_view text);

/// The member if it is there with the type of `otherwise`, else `otherwise`.
std::string text_of(const nlohmann::json& object, const char* name,
                    const std::string& otherwise = {});
std::int64_t number_of(const nlohmann::json& object, const char* name, std::int64_t otherwise = 0);
bool flag_of(const nlohmann::json& object, const char* name, bool otherwise = false);

/// The text as it goes over a wire: what is not UTF-8 becomes U+FFFD.
std::string dump(const nlohmann::json& value);

}  // namespace sessions
