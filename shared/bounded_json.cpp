#include "shared/bounded_json.h"

namespace shared {

namespace {

/// Nesting as a scanner sees it. On text that is no JSON it may say anything: the parser refuses
/// that.
bool too_deep(std::string_view text, int max_depth) {
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
            if (++depth > max_depth) return true;
        } else if (c == ']' || c == '}') {
            --depth;
        }
    }
    return false;
}

}  // namespace

nlohmann::json parse_bounded_json(std::string_view text, int max_depth) {
    if (too_deep(text, max_depth)) return nlohmann::json::value_t::discarded;
    return nlohmann::json::parse(text, nullptr, false);
}

}  // namespace shared
