#include "api/workspaces/location.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace workspaces {

using shared::Error;
using shared::ErrorCode;
using shared::Result;

namespace {

constexpr std::size_t kMaxPathBytes = 4096;  // PATH_MAX
constexpr std::size_t kMaxNameBytes = 255;

bool is_letter_or_digit(char c) {
    const auto lower = static_cast<char>(c | 0x20);
    return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9');
}

/// A letter or digit, then those and `others`.
bool is_name(std::string_view text, std::string_view others) {
    return !text.empty() && text.size() <= kMaxNameBytes && is_letter_or_digit(text[0]) &&
           std::all_of(text.begin(), text.end(), [&](char c) {
               return is_letter_or_digit(c) || others.find(c) != std::string_view::npos;
           });
}

bool is_ipv6(std::string_view text) {
    // A zone ("%eth0") may follow. Whether it is a good address is for ssh to say.
    const auto zone = text.find('%');
    const auto address = text.substr(0, zone);
    if (zone != std::string_view::npos && !is_name(text.substr(zone + 1), "._-")) return false;
    return std::count(address.begin(), address.end(), ':') >= 2 && address.size() <= 45 &&
           address.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
}

bool is_host(std::string_view text) {
    return is_name(text, "._-") || is_ipv6(text);
}
bool is_user(std::string_view text) {
    return is_name(text, "._-+");
}

/// What a person wrote, fit to stand in a message.
std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text.substr(0, 100)) {
        const auto byte = static_cast<unsigned char>(c);
        out += byte < 0x20 || byte == 0x7f ? '?' : c;
    }
    return out + (text.size() > 100 ? "...\"" : "\"");
}

Error invalid(std::string message) {
    return {ErrorCode::invalid, std::move(message), {}};
}

std::optional<Error> refuse_host(std::string_view host) {
    if (is_host(host)) return std::nullopt;
    return invalid(quoted(host) + " is not a valid host");
}

std::optional<Error> refuse_user(std::string_view user) {
    if (is_user(user)) return std::nullopt;
    return invalid(quoted(user) + " is not a valid user");
}

/// Segments joined by "/", without "." and empty ones, ".." taken back as far as there is anything.
/// Nothing when ".." would lead out of a path that has no known parent.
std::optional<std::string> normalise(std::string_view path, bool rooted) {
    std::vector<std::string_view> kept;
    while (!path.empty()) {
        const auto end = std::min(path.find('/'), path.size());
        const auto segment = path.substr(0, end);
        path.remove_prefix(std::min(end + 1, path.size()));
        if (segment.empty() || segment == ".") continue;
        if (segment != "..") {
            kept.push_back(segment);
        } else if (!kept.empty()) {
            kept.pop_back();
        } else if (!rooted) {
            return std::nullopt;
        }
    }
    std::string out;
    for (const auto segment : kept) {
        if (rooted || !out.empty()) out += '/';
        out += segment;
    }
    return rooted && out.empty() ? "/" : out;
}

/// The path behind the host, or the whole text.
std::optional<Error> parse_path(std::string_view text, Location& location) {
    if (text.find('\0') != std::string_view::npos)
        return invalid("the folder must not hold a NUL byte");
    if (text.size() > kMaxPathBytes)
        return invalid("the folder is longer than " + std::to_string(kMaxPathBytes) + " bytes");
    location.is_home_relative = text == "~" || text.substr(0, 2) == "~/";
    if (!location.is_home_relative && text.substr(0, 1) != "/")
        return invalid("the folder " + quoted(text) + " must be absolute" +
                       (text.substr(0, 1) == "~" ? " (of homes, only ~/ is known)" : ""));
    auto path =
        normalise(location.is_home_relative ? text.substr(1) : text, !location.is_home_relative);
    if (!path) return invalid("the folder " + quoted(text) + " must not lead out of the home");
    location.path = std::move(*path);
    return std::nullopt;
}

struct Target {
    std::string_view user, host;
    bool has_user = false;
};

Target split_target(std::string_view text) {
    const auto at = text.rfind('@');
    if (at == std::string_view::npos) return {{}, text, false};
    return {text.substr(0, at), text.substr(at + 1), true};
}

std::optional<Error> refuse_target(const Target& target) {
    if (target.has_user)
        if (auto refused = refuse_user(target.user)) return refused;
    return refuse_host(target.host);
}

/// Where the path of a remote text begins: behind "host:" or "[host]:". Nothing: a local text.
std::optional<std::size_t> find_colon(std::string_view text) {
    if (text.empty() || text[0] == '/' || text[0] == '~') return std::nullopt;
    const auto slash = text.find('/');
    const auto bracket = text.find("]:");
    const auto open = text.find('[');
    if (open < bracket && bracket != std::string_view::npos && bracket < slash &&
        (open == 0 || text[open - 1] == '@'))
        return bracket + 1;
    const auto colon = text.find(':');
    if (colon == std::string_view::npos || slash < colon) return std::nullopt;
    return colon;
}

}  // namespace

Result<Location> parse_location(std::string_view text) {
    Location location;
    if (text.empty()) return invalid("the workspace is empty: a folder must be absolute");
    const auto colon = find_colon(text);
    if (!colon) {
        if (auto refused = parse_path(text, location)) return std::move(*refused);
        return location;
    }
    auto target = split_target(text.substr(0, *colon));
    if (target.host.size() >= 2 && target.host.front() == '[' && target.host.back() == ']') {
        target.host = target.host.substr(1, target.host.size() - 2);
        if (!is_ipv6(target.host)) return invalid(quoted(target.host) + " is not a valid host");
    }
    if (auto refused = refuse_target(target)) return std::move(*refused);
    location.user = target.user;
    location.host = target.host;
    if (auto refused = parse_path(text.substr(*colon + 1), location)) return std::move(*refused);
    return location;
}

std::string Location::target() const {
    if (is_local()) return "local";
    return user.empty() ? host : user + "@" + host;
}

std::string Location::prefix() const {
    if (is_local()) return "";
    const bool brackets = host.find(':') != std::string::npos;
    return (user.empty() ? "" : user + "@") + (brackets ? "[" + host + "]" : host) + ":";
}

std::string Location::text() const {
    if (!is_home_relative) return prefix() + path;
    return prefix() + (path.empty() ? "~" : "~/" + path);
}

std::string Location::label(bool show_user) const {
    return show_user || is_local() ? target() : host;
}

Location resolve(Location location, std::string_view home) {
    if (!location.is_home_relative) return location;
    location.path = normalise_path(std::string(home) + "/" + location.path);
    location.is_home_relative = false;
    return location;
}

std::string normalise_path(std::string_view absolute) {
    return *normalise(absolute, true);
}

std::string slug(std::string_view location_text) {
    std::string out(location_text);
    for (char& c : out)
        if (!is_letter_or_digit(c)) c = '-';
    return out;
}

Result<void> check_target(std::string_view target) {
    if (auto refused = refuse_target(split_target(target))) return std::move(*refused);
    return {};
}

}  // namespace workspaces
