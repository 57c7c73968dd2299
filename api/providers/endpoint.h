// Where a request to a provider goes: its URL taken apart, and the proxy that the environment
// names for it. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "shared/result.h"

namespace providers {

struct Url {
    bool tls = false;
    std::string host;  // IPv6 without brackets
    std::uint16_t port = 0;
    std::string path;  // "" or "/v1": no slash at its end
};

/// http:// or https:// only. Errors: invalid, for a user name or password in it too, as these
/// would end up in logs.
shared::Result<Url> parse_url(std::string_view text);

struct Proxy {
    std::string host;
    std::uint16_t port = 0;
    std::string user;
    std::string password;
};

using Environment = std::function<std::optional<std::string>(const char* name)>;
/// The environment of this process.
Environment process_environment();

/// By HTTPS_PROXY or HTTP_PROXY, ALL_PROXY and NO_PROXY; each in lower case wins over upper case.
/// Never a proxy for loopback addresses. Errors: invalid for a proxy that is not plain http.
shared::Result<std::optional<Proxy>> choose_proxy(const Url& url, const Environment& environment);

}  // namespace providers
