#include "api/sessions/kernel_json.h"

#include <cmath>

namespace sessions {

using shared::Error;
using shared::ErrorCode;

namespace {
/// Nesting as a scanner sees it, before a parser recurses into it.
bool too_deep(std::string_view text) {
    int depth = 0;
    bool quoted = false;
    for (std::size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        if (quoted) {
            if (c == '\\')
                ++at;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            if (++depth > kJsonDepth) return true;
        } else if (c == ']' || c == '}') {
            --depth;
        }
    }
    return false;
}
}  // namespace

shared::Result<nlohmann::json> parse_kernel_json(std::string_view text) {
    if (too_deep(text)) return Error{ErrorCode::protocol, "JSON nested too deep", {}};
    nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
    if (value.is_discarded() || !value.is_object())
        return Error{ErrorCode::protocol, "no JSON object", {}};
    return value;
}

std::string text_of(const nlohmann::json& object, const char* name, const std::string& otherwise) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

std::int64_t number_of(const nlohmann::json& object, const char* name, std::int64_t otherwise) {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_number()) return otherwise;
    if (found->is_number_float()) {
        const double value = found->get<double>();
        return std::abs(value) < 9e15 ? std::llround(value) : otherwise;
    }
    if (found->is_number_unsigned() &&
        found->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX))
        return otherwise;
    return found->get<std::int64_t>();
}

bool flag_of(const nlohmann::json& object, const char* name, bool otherwise) {
    const auto found = object.find(name);
    return found != object.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

std::string dump(const nlohmann::json& value) {
    return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace sessions
