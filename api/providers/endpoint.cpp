#include "api/providers/endpoint.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace providers {
namespace {

std::string lower(std::string_view text) {
    std::string result(text);
    std::transform(result.begin(), result.end(), result.begin(),
                   [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
    return result;
}

/// "host", "host:port" or "[v6]:port"; false if it is none of these.
bool split_host(std::string_view text, std::string& host, std::uint16_t& port) {
    std::string_view rest;
    if (text.starts_with('[')) {
        const auto end = text.find(']');
        if (end == text.npos) return false;
        host = lower(text.substr(1, end - 1));
        rest = text.substr(end + 1);
    } else {
        const auto colon = text.find(':');
        host = lower(text.substr(0, colon));
        rest = colon == text.npos ? std::string_view() : text.substr(colon);
    }
    static constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyz0123456789.-_:%";
    if (host.empty() || host.find_first_not_of(allowed) != host.npos) return false;
    if (rest.empty()) return true;
    rest.remove_prefix(1);
    auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), port);
    return error == std::errc() && end == rest.data() + rest.size() && port != 0;
}

bool is_loopback(const std::string& host) {
    return host == "localhost" || host == "::1" || host.starts_with("127.");
}

bool spared(const Url& url, std::string_view list) {
    while (!list.empty()) {
        const auto comma = list.find(',');
        auto entry = lower(list.substr(0, comma));
        list = comma == list.npos ? std::string_view() : list.substr(comma + 1);
        std::erase(entry, ' ');
        if (entry == "*") return true;
        std::string host;
        std::uint16_t port = url.port;
        if (entry.starts_with('.')) entry.erase(0, 1);
        if (!split_host(entry, host, port) || port != url.port) continue;
        if (url.host == host || url.host.ends_with("." + host)) return true;
    }
    return false;
}

std::string percent_decoded(std::string_view text) {
    std::string result;
    for (std::size_t at = 0; at < text.size(); ++at) {
        unsigned value = 0;
        if (text[at] == '%' && at + 2 < text.size() &&
            std::from_chars(text.data() + at + 1, text.data() + at + 3, value, 16).ptr ==
                text.data() + at + 3) {
            result += static_cast<char>(value);
            at += 2;
        } else {
            result += text[at];
        }
    }
    return result;
}

}  // namespace

shared::Result<Url> parse_url(std::string_view text) {
    auto refuse = [](std::string why) {
        return shared::Error{
            shared::ErrorCode::invalid, "the provider's URL " + std::move(why), {}};
    };
    Url url;
    if (text.starts_with("https://")) {
        url.tls = true;
        text.remove_prefix(8);
    } else if (text.starts_with("http://")) {
        text.remove_prefix(7);
    } else {
        return refuse("must start with http:// or https://");
    }
    const auto slash = text.find('/');
    const auto place = text.substr(0, slash);
    if (slash != text.npos) url.path = text.substr(slash);
    while (url.path.ends_with('/')) url.path.pop_back();
    if (place.find('@') != place.npos) return refuse("must not hold a user name or password");
    for (unsigned char c : url.path)
        if (c <= 0x20 || c >= 0x7f || c == '?' || c == '#')
            return refuse("holds a character that does not belong in a path");
    url.port = url.tls ? 443 : 80;
    if (!split_host(place, url.host, url.port)) return refuse("names no valid host and port");
    return url;
}

Environment process_environment() {
    return [](const char* name) -> std::optional<std::string> {
        const char* value = std::getenv(name);
        if (!value) return std::nullopt;
        return std::string(value);
    };
}

shared::Result<std::optional<Proxy>> choose_proxy(const Url& url, const Environment& environment) {
    auto first_of = [&](std::initializer_list<const char*> names) -> std::string {
        for (const char* name : names)
            if (auto value = environment(name); value && !value->empty()) return *value;
        return "";
    };
    if (is_loopback(url.host) || spared(url, first_of({"no_proxy", "NO_PROXY"})))
        return std::optional<Proxy>();
    std::string_view name = url.tls ? "HTTPS_PROXY" : "HTTP_PROXY";
    std::string text =
        url.tls ? first_of({"https_proxy", "HTTPS_PROXY"}) : first_of({"http_proxy", "HTTP_PROXY"});
    if (text.empty()) {
        name = "ALL_PROXY";
        text = first_of({"all_proxy", "ALL_PROXY"});
    }
    if (text.empty()) return std::optional<Proxy>();
    // The value may hold a password: no message repeats it.
    const shared::Error broken{
        shared::ErrorCode::invalid, std::string(name) + " does not name a plain http proxy", {}};
    std::string_view rest = text;
    if (rest.starts_with("http://"))
        rest.remove_prefix(7);
    else if (rest.find("://") != rest.npos)
        return broken;
    rest = rest.substr(0, rest.find('/'));
    Proxy proxy;
    if (const auto at = rest.rfind('@'); at != rest.npos) {
        const auto who = rest.substr(0, at);
        const auto colon = who.find(':');
        proxy.user = percent_decoded(who.substr(0, colon));
        if (colon != who.npos) proxy.password = percent_decoded(who.substr(colon + 1));
        rest.remove_prefix(at + 1);
    }
    proxy.port = 80;
    if (!split_host(rest, proxy.host, proxy.port)) return broken;
    return std::optional<Proxy>(std::move(proxy));
}

}  // namespace providers
