#include "api/http/request_head.h"

#include <algorithm>
#include <charconv>

namespace http {

using shared::Error;
using shared::ErrorCode;
using shared::Result;

namespace {

Error invalid(std::string message) {
    return {ErrorCode::invalid, std::move(message), {}};
}

bool is_token(std::string_view text) {
    constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
    return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
        const auto lower = static_cast<char>(c | 0x20);
        return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') ||
               kOthers.find(c) != std::string_view::npos;
    });
}

bool is_control(char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
}

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
    return out;
}

std::string_view trim(std::string_view text) {
    const auto first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// The next line without its CRLF; nothing when it ends otherwise.
std::optional<std::string_view> take_line(std::string_view& rest) {
    const auto end = rest.find('\n');
    if (end == std::string_view::npos || end == 0 || rest[end - 1] != '\r') return std::nullopt;
    const auto line = rest.substr(0, end - 1);
    rest.remove_prefix(end + 1);
    return line;
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const char small = static_cast<char>(c | 0x20);
    return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

std::optional<Error> parse_request_line(std::string_view line, RequestHead& head) {
    const auto first = line.find(' ');
    const auto second = first == std::string_view::npos ? first : line.find(' ', first + 1);
    if (second == std::string_view::npos) return invalid("not an HTTP request");
    const auto target = line.substr(first + 1, second - first - 1);
    const auto version = line.substr(second + 1);
    head.method = line.substr(0, first);
    if (!is_token(head.method)) return invalid("not an HTTP request");
    if (version != "HTTP/1.1" && version != "HTTP/1.0") return invalid("not HTTP/1.1");
    head.http_1_0 = version == "HTTP/1.0";
    if (target.size() > kMaxTargetBytes)
        return Error{ErrorCode::too_large, "the request's path and query are too long", {}};
    if (target.empty() || target[0] != '/' || std::any_of(target.begin(), target.end(), [](char c) {
            return is_control(c) || c == '\t';
        }))
        return invalid("the request's target must be a path");
    const auto question = target.find('?');
    head.path = target.substr(0, question);
    if (question != std::string_view::npos) head.query = target.substr(question + 1);
    return std::nullopt;
}

}  // namespace

std::size_t RequestHead::count(std::string_view lower_name) const {
    return static_cast<std::size_t>(
        std::count_if(headers.begin(), headers.end(),
                      [&](const auto& header) { return header.first == lower_name; }));
}

const std::string* RequestHead::find(std::string_view lower_name) const {
    for (const auto& [name, value] : headers)
        if (name == lower_name) return &value;
    return nullptr;
}

bool RequestHead::wants_close() const {
    const std::string* connection = find("connection");
    return http_1_0 || (connection && lower(*connection).find("close") != std::string::npos);
}

std::size_t find_head_end(std::string_view bytes, std::size_t& searched) {
    const auto end = bytes.find("\n\r\n", searched);
    if (end != std::string_view::npos) return end + 3;
    searched = bytes.size() > 2 ? bytes.size() - 2 : 0;
    return end;
}

Result<RequestHead> parse_head(std::string_view bytes) {
    RequestHead head;
    auto line = take_line(bytes);
    if (!line) return invalid("the request line does not end in CRLF");
    if (auto failed = parse_request_line(*line, head)) return std::move(*failed);
    while (true) {
        line = take_line(bytes);
        if (!line) return invalid("a header line does not end in CRLF");
        if (line->empty()) return head;
        if (head.headers.size() == kMaxHeaders)
            return Error{ErrorCode::too_large, "the request has too many headers", {}};
        const auto colon = line->find(':');
        if (colon == std::string_view::npos || !is_token(line->substr(0, colon)))
            return invalid("a header line has no proper name");
        const auto value = trim(line->substr(colon + 1));
        if (std::any_of(value.begin(), value.end(), is_control))
            return invalid("a header holds a control character");
        head.headers.emplace_back(lower(line->substr(0, colon)), value);
    }
}

Result<BodyFraming> body_framing(const RequestHead& head) {
    BodyFraming framing;
    const std::string* encoding = head.find("transfer-encoding");
    const std::string* length = head.find("content-length");
    if (head.count("transfer-encoding") + head.count("content-length") > 1)
        return invalid("the body's length is stated twice");
    if (encoding) {
        if (head.http_1_0 || lower(*encoding) != "chunked")
            return invalid("the only transfer encoding known is chunked");
        framing.chunked = true;
    }
    if (length) {
        const char* end = length->data() + length->size();
        const auto [stop, failed] = std::from_chars(length->data(), end, framing.length);
        if (failed != std::errc() || stop != end) return invalid("Content-Length is not a number");
    }
    return framing;
}

std::optional<std::string> unescape(std::string_view text, bool plus_is_blank) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        char c = text[i];
        if (c == '%') {
            if (i + 2 >= text.size()) return std::nullopt;
            const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
            if (high < 0 || low < 0) return std::nullopt;
            c = static_cast<char>(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_blank) {
            c = ' ';
        }
        if (c == '\0') return std::nullopt;
        out += c;
    }
    return out;
}

Result<std::multimap<std::string, std::string>> parse_query(std::string_view query) {
    std::multimap<std::string, std::string> pairs;
    while (!query.empty()) {
        const auto end = query.find('&');
        const auto pair = query.substr(0, end);
        query.remove_prefix(end == std::string_view::npos ? query.size() : end + 1);
        if (pair.empty()) continue;
        const auto equals = pair.find('=');
        auto name = unescape(pair.substr(0, equals), true);
        auto value = unescape(
            equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1), true);
        if (!name || !value) return invalid("the query holds a broken % escape");
        pairs.emplace(std::move(*name), std::move(*value));
    }
    return pairs;
}

}  // namespace http
