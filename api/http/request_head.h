// The line and headers of one request, from bytes. Pure; it decides nothing about who may ask what.
// Stricter than HTTP asks for: whatever two readers could read in two ways is refused.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/result.h"

namespace http {

inline constexpr std::size_t kMaxTargetBytes = 8 * 1024;
inline constexpr std::size_t kMaxHeaders = 100;

struct RequestHead {
    std::string method;
    std::string path;   // still escaped, starts with "/"
    std::string query;  // still escaped, without "?"
    bool http_1_0 = false;
    std::vector<std::pair<std::string, std::string>>
        headers;  // names in lower case, values trimmed

    std::size_t count(std::string_view lower_name) const;
    /// The first of that name, or nothing.
    const std::string* find(std::string_view lower_name) const;
    bool wants_close() const;
};

/// Where the head in `bytes` ends (just past its empty line); npos: not there yet. `searched` says
/// how far earlier calls have looked and is moved on.
std::size_t find_head_end(std::string_view bytes, std::size_t& searched);

/// `head` ends in its empty line. Errors: invalid, with the reason: a line that does not end in
/// CRLF, a continued or nameless header, a control character, another version, a target that is no
/// path; too_large: target or number of headers.
shared::Result<RequestHead> parse_head(std::string_view head);

/// How long the body will be. Errors: invalid when that can be read in two ways.
struct BodyFraming {
    std::size_t length = 0;
    bool chunked = false;  // length unknown
    bool any() const { return chunked || length > 0; }
};
shared::Result<BodyFraming> body_framing(const RequestHead& head);

/// %41 to A; "+" to a blank if `plus_is_blank`. Nothing for a broken escape or a NUL.
std::optional<std::string> unescape(std::string_view text, bool plus_is_blank);

/// "a=1&b" to pairs. Errors: invalid for a broken escape.
shared::Result<std::multimap<std::string, std::string>> parse_query(std::string_view query);

}  // namespace http
