// What an HTTP client may send: the head, the query, the framing and chunks of a body, JSON.
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "api/http/client_socket.h"
#include "api/http/json_codec.h"
#include "api/http/request_body.h"
#include "api/http/request_head.h"
#include "shared/clock.h"
#include "shared/result.h"
#include "shared/unique_fd.h"
#include "tests/fuzz/targets.h"

namespace {

constexpr std::size_t kBodyLimit = 4096;

/// The end of a head is the same place whether it came whole or byte by byte.
std::size_t head_end(std::string_view bytes) {
    std::size_t searched = 0;
    const std::size_t whole = http::find_head_end(bytes, searched);
    searched = 0;
    std::size_t piecewise = std::string_view::npos;
    for (std::size_t size = 1; size <= bytes.size() && piecewise == std::string_view::npos; ++size)
        piecewise = http::find_head_end(bytes.substr(0, size), searched);
    ALBEDO_CHECK(whole == piecewise);
    return whole;
}

void body(std::string_view bytes, const http::BodyFraming& framing) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) return;
    shared::UniqueFd ours(pair[0]);
    const shared::UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    (void)::send(ours.get(), bytes.data(), std::min<std::size_t>(bytes.size(), 32 * 1024),
                 MSG_NOSIGNAL);
    ours = {};
    http::ClientSocket client(shared::UniqueFd(pair[1]), stop.get(), shared::Milliseconds{1000});
    const auto read = http::read_body(client, framing, kBodyLimit,
                                      shared::Monotonic::now() + shared::Milliseconds{10'000});
    if (read) {
        ALBEDO_CHECK(read->size() <= kBodyLimit);
        if (!framing.chunked) ALBEDO_CHECK(*read == bytes.substr(0, framing.length));
    }
}

void request(std::string_view bytes) {
    const std::size_t end = head_end(bytes);
    if (end == std::string_view::npos) return;
    const auto head = http::parse_head(bytes.substr(0, end));
    if (!head) return;
    ALBEDO_CHECK(!head->method.empty() && head->path.starts_with('/'));
    ALBEDO_CHECK(head->headers.size() <= http::kMaxHeaders);
    for (const auto& [name, value] : head->headers) {
        ALBEDO_CHECK(!name.empty());
        for (const char c : name) ALBEDO_CHECK(c > ' ' && (c < 'A' || c > 'Z'));
        ALBEDO_CHECK(value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
    }
    (void)head->wants_close();
    (void)http::parse_query(head->query);
    const auto path = http::unescape(head->path, false);
    ALBEDO_CHECK(!path || path->find('\0') == std::string::npos);
    const auto framing = http::body_framing(*head);
    if (framing && framing->any()) body(bytes.substr(end), *framing);
}

void fields_of(std::string_view bytes) {
    http::Fields fields(bytes);
    (void)fields.text("code", 16);
    (void)fields.optional_text("workspace");
    const auto number = fields.optional_integer("timeout_ms", 1, 86'400'000);
    (void)fields.boolean_or("check", true);
    (void)fields.optional_object("image");
    (void)fields.optional_value("any");
    if (fields.finish_open()) ALBEDO_CHECK(!number || (*number >= 1 && *number <= 86'400'000));
    (void)fields.finish();
}

}  // namespace

void fuzz::http_request(std::string_view bytes) {
    switch (choice(bytes, 3)) {
        case 0:
            return request(bytes);
        case 1:
            return body(bytes, {0, true});
        default:
            for (const bool plus : {true, false}) (void)http::unescape(bytes, plus);
            (void)http::parse_query(bytes);
    }
}

void fuzz::http_json(std::string_view bytes) {
    fields_of(bytes);
    const auto value = http::parse_json(bytes);
    if (!value) {
        ALBEDO_CHECK(!value.error().message.empty());
        return;
    }
    const auto again = http::parse_json(http::dump_json(*value));
    ALBEDO_CHECK(again.ok() && *again == *value);
}
