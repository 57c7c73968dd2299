#include "api/sessions/kernel_json.h"

#include <cmath>

#include "shared/bounded_json.h"

namespace sessions {

using shared::Error;
using shared::ErrorCode;

shared::Result<nlohmann::json> parse_kernel_json(std::string_view text) {
    nlohmann::json value = shared::parse_bounded_json(text);
    if (!value.is_object())
        return Error{ErrorCode::protocol, "no JSON object, or one nested too deep", {}};
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
