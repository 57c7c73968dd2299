#include "api/providers/provider_json.h"

#include "shared/bounded_json.h"

namespace providers {

std::optional<nlohmann::json> parse_json(std::string_view text) {
    auto value = shared::parse_bounded_json(text, kProviderJsonDepth);
    if (value.is_discarded()) return std::nullopt;
    return value;
}

std::string dump_json(const nlohmann::json& value) {
    return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

const nlohmann::json& member_of(const nlohmann::json& object, const char* name) {
    static const nlohmann::json none;
    if (!object.is_object()) return none;
    auto found = object.find(name);
    return found == object.end() ? none : *found;
}

std::string text_of(const nlohmann::json& object, const char* name) {
    const auto& member = member_of(object, name);
    return member.is_string() ? member.get<std::string>() : std::string();
}

std::int64_t number_of(const nlohmann::json& object, const char* name, std::int64_t otherwise) {
    const auto& member = member_of(object, name);
    if (!member.is_number_integer()) return otherwise;
    if (member.is_number_unsigned() && member.get<std::uint64_t>() > INT64_MAX) return otherwise;
    return member.get<std::int64_t>();
}

}  // namespace providers
