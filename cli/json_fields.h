// Reading the daemon's answers, of which any field may be missing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cli {

/// The text at `key`; empty when there is none or it is no text.
inline std::string text_at(const nlohmann::json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace cli
