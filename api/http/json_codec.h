// JSON at the daemon's borders: strict reading of what anybody may have written, and writing that
// never throws. Everything refused is an Error `invalid` that says why, and at which byte or field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "api/http/server.h"
#include "shared/result.h"

namespace http {

using Json = nlohmann::json;

inline constexpr std::size_t kMaxJsonDepth = 128;

/// Refuses: nothing at all, a byte order mark, bytes after the document, invalid UTF-8, lone
/// surrogates, NUL bytes, NaN and infinities, integers beyond 64 bits, floats beyond double,
/// duplicate keys, more than kMaxJsonDepth levels.
shared::Result<Json> parse_json(std::string_view text);

/// Compact. Bytes that are no UTF-8 become U+FFFD; NaN becomes null.
std::string dump_json(const Json& value);

/// 200 (or `status`) with `value`.
Response json_response(const Json& value, int status = 200);

/// Reads the fields of one object. The first failure stays and is told by finish(); the getters
/// return an empty value from then on, so that a route asks for all and looks once.
///
///     http::Fields fields(request.body);
///     auto code = fields.text("code");
///     auto timeout = fields.optional_integer("timeout_ms", 1, 86'400'000);
///     if (auto read = fields.finish(); !read) return http::error_response(read.error());
class Fields {
  public:
    /// Parses `body`, which must be an object.
    explicit Fields(std::string_view body);
    /// `where` names the object in messages: "image".
    Fields(const Json& object, std::string where);

    std::string text(const char* name, std::size_t max_bytes = SIZE_MAX);
    std::optional<std::string> optional_text(const char* name, std::size_t max_bytes = SIZE_MAX);
    /// Whole numbers only: 1.0 and true are refused.
    std::int64_t integer(const char* name, std::int64_t least, std::int64_t most);
    std::optional<std::int64_t> optional_integer(const char* name, std::int64_t least,
                                                 std::int64_t most);
    bool boolean_or(const char* name, bool otherwise);
    /// The value as it is; null counts as absent. Must be read before finish() judges the rest.
    std::optional<Json> optional_object(const char* name);
    std::optional<Json> optional_value(const char* name);

    /// The first failure, or `invalid` for a field that nobody asked for.
    shared::Result<void> finish();
    /// The same, but fields nobody asked for are allowed.
    shared::Result<void> finish_open() const;

  private:
    const Json* find(const char* name, bool required);
    void fail(std::string message);
    std::string named(const char* name) const;

    Json object_;
    std::string where_;
    std::vector<std::string> asked_;
    std::optional<shared::Error> failure_;
};

}  // namespace http
