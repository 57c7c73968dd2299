#include "api/http/router.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "api/http/request_head.h"
#include "shared/result.h"

namespace http {

namespace {

std::vector<std::string_view> split(std::string_view path) {
    std::vector<std::string_view> segments;
    while (!path.empty()) {
        path.remove_prefix(1);  // the "/"
        const auto end = std::min(path.find('/'), path.size());
        segments.push_back(path.substr(0, end));
        path.remove_prefix(end);
    }
    return segments;
}

bool is_parameter(const std::string& segment) {
    return !segment.empty() && segment[0] == ':';
}

/// The pattern with its parameters' names left out: two routes with one shape cannot be told apart.
std::vector<std::string> shape(const std::vector<std::string>& segments) {
    auto out = segments;
    for (auto& segment : out)
        if (is_parameter(segment)) segment = "\x7f";  // sorts behind every literal
    return out;
}

std::optional<std::map<std::string, std::string, std::less<>>> match(
    const std::vector<std::string>& pattern, const std::vector<std::optional<std::string>>& path) {
    if (pattern.size() != path.size()) return std::nullopt;
    std::map<std::string, std::string, std::less<>> parameters;
    for (std::size_t i = 0; i < pattern.size(); ++i) {
        if (!path[i]) return std::nullopt;
        if (!is_parameter(pattern[i])) {
            if (pattern[i] != *path[i]) return std::nullopt;
        } else {
            if (path[i]->empty()) return std::nullopt;
            parameters.emplace(pattern[i].substr(1), *path[i]);
        }
    }
    return parameters;
}

}  // namespace

void Router::add(Route route) {
    ALBEDO_CHECK(!route.pattern.empty() && route.pattern[0] == '/');
    auto entry = std::make_unique<Entry>();
    for (const auto segment : split(route.pattern)) entry->segments.emplace_back(segment);
    entry->route = std::move(route);
    const auto key = [](const std::unique_ptr<Entry>& each) {
        return std::pair(shape(each->segments), each->route.method);
    };
    const auto place = std::lower_bound(
        entries_.begin(), entries_.end(), entry,
        [&](const auto& left, const auto& right) { return key(left) < key(right); });
    ALBEDO_CHECK(place == entries_.end() || key(*place) != key(entry));
    entries_.insert(place, std::move(entry));
}

Router::Match Router::find(std::string_view method, std::string_view path) const {
    std::vector<std::optional<std::string>> segments;
    for (const auto segment : split(path)) segments.push_back(unescape(segment, false));
    Match found;
    for (const auto& entry : entries_) {
        auto parameters = match(entry->segments, segments);
        if (!parameters) continue;
        if (entry->route.method == method) {
            found.route = &entry->route;
            found.parameters = std::move(*parameters);
            return found;
        }
        if (!found.allowed.empty()) found.allowed += ", ";
        found.allowed += entry->route.method;
    }
    return found;
}

}  // namespace http
