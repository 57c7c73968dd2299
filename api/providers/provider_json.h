// JSON that providers and models write: untrusted, so bounded in depth and never thrown over.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace providers {

inline constexpr int kProviderJsonDepth = 64;

/// One JSON document; nothing if it is broken or nested deeper than kProviderJsonDepth.
std::optional<nlohmann::json> parse_json(std::string_view text);
/// Never throws: what is not UTF-8 becomes U+FFFD.
std::string dump_json(const nlohmann::json& value);

/// The member with that type, else an empty text, `otherwise`, or null.
std::string text_of(const nlohmann::json& object, const char* name);
std::int64_t number_of(const nlohmann::json& object, const char* name, std::int64_t otherwise = 0);
const nlohmann::json& member_of(const nlohmann::json& object, const char* name);

}  // namespace providers
