#include "api/providers/provider_json.h"

namespace providers {

std::optional<nlohmann::json> parse_json(std::string_view text) {
    bool too_deep = false;
    auto watch = [&](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
        if (depth > kProviderJsonDepth) too_deep = true;
        return !too_deep;
    };
    auto value = nlohmann::json::parse(text.begin(), text.end(), watch, false);
    if (too_deep || value.is_discarded()) return std::nullopt;
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
    return member.is_number_integer() ? member.get<std::int64_t>() : otherwise;
}

}  // namespace providers
