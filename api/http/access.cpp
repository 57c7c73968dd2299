#include "api/http/access.h"

#include <algorithm>

namespace http {

using shared::Error;
using shared::ErrorCode;

namespace {

bool equal_ignoring_case(std::string_view left, std::string_view right) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](char a, char b) {
        const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? c | 0x20 : c; };
        return lower(a) == lower(b);
    });
}

bool is_loopback(std::string_view authority) {
    const auto colon = authority.rfind(':');
    auto name = authority;
    if (colon != std::string_view::npos && authority.back() != ']') {
        const auto port = authority.substr(colon + 1);
        if (port.empty() || port.size() > 5 ||
            port.find_first_not_of("0123456789") != std::string_view::npos)
            return false;
        name = authority.substr(0, colon);
    }
    return name == "127.0.0.1" || name == "[::1]" || equal_ignoring_case(name, "localhost");
}

bool is_loopback_origin(std::string_view origin) {
    for (const std::string_view scheme : {"http://", "https://"})
        if (equal_ignoring_case(origin.substr(0, scheme.size()), scheme))
            return is_loopback(origin.substr(scheme.size()));
    return false;
}

/// Takes as long for a wrong first byte as for a wrong last one.
bool equal_in_constant_time(std::string_view left, std::string_view right) {
    if (left.size() != right.size()) return false;
    volatile unsigned char difference = 0;
    for (std::size_t i = 0; i < left.size(); ++i)
        difference = difference | static_cast<unsigned char>(left[i] ^ right[i]);
    return difference == 0;
}

}  // namespace

std::optional<Error> refuse_access(const RequestHead& head, std::string_view token) {
    const std::string* host = head.find("host");
    if (head.count("host") != 1 || !is_loopback(*host))
        return Error{
            ErrorCode::forbidden, "the daemon answers to 127.0.0.1 and localhost only", {}};
    const std::string* origin = head.find("origin");
    if (origin && (head.count("origin") != 1 || !is_loopback_origin(*origin)))
        return Error{ErrorCode::forbidden, "pages of other sites may not talk to the daemon", {}};
    constexpr std::string_view kScheme = "Bearer ";
    const std::string* words = head.find("authorization");
    if (token.empty() || head.count("authorization") != 1 ||
        !equal_ignoring_case(std::string_view(*words).substr(0, kScheme.size()), kScheme) ||
        !equal_in_constant_time(std::string_view(*words).substr(kScheme.size()), token))
        return Error{ErrorCode::unauthorized, "the daemon's bearer token is missing or wrong", {}};
    return std::nullopt;
}

}  // namespace http
