#include "api/workspaces/links.h"

#include <algorithm>
#include <cstdlib>

#include "api/store/links_table.h"

namespace workspaces {
namespace {

using nlohmann::json;
using shared::Error;
using shared::ErrorCode;
using shared::Monotonic;
using shared::Result;

constexpr shared::Milliseconds kStoreDeadline{10'000};

/// The canonical text of what a person wrote.
Result<std::string> canonical(const std::string& text) {
    auto location = parse_location(text);
    if (!location) return std::move(location).error();
    if (location->is_home_relative && !location->is_local()) {
        return Error{ErrorCode::invalid, text + ": a link names its folder absolute, not by ~", {}};
    }
    if (location->is_home_relative) {
        const char* home = std::getenv("HOME");
        return resolve(std::move(*location), home ? home : "/").text();
    }
    return location->text();
}

}  // namespace

const char* badge_of(Presence::Kind kind) {
    switch (kind) {
        case Presence::Kind::there:
            return "";
        case Presence::Kind::gone:
            return "gone";
        case Presence::Kind::unreachable:
            return "unreachable";
        case Presence::Kind::needs_auth:
            return "sign in";
        case Presence::Kind::unanswered:
            return "connecting";
    }
    return "";
}

Result<std::vector<std::string>> Links::others(const std::string& workspace) {
    return database_.call<std::vector<std::string>>(
        [workspace](store::Connection& connection) {
            return store::linked_workspaces(connection, workspace);
        },
        Monotonic::now() + kStoreDeadline);
}

Result<std::string> Links::add(const std::string& workspace, const std::string& other) {
    auto named = canonical(other);
    if (!named) return std::move(named).error();
    if (*named == workspace) {
        return Error{ErrorCode::invalid, workspace + " cannot be linked with itself", {}};
    }
    auto linked = database_.call<bool>(
        [workspace, other = *named](store::Connection& connection) {
            return store::link_workspaces(connection, workspace, other);
        },
        Monotonic::now() + kStoreDeadline);
    if (!linked) return std::move(linked).error();
    return workspace + (*linked ? " is now linked with " : " is already linked with ") + *named;
}

Result<std::string> Links::remove(const std::string& workspace, const std::string& other) {
    auto named = canonical(other);
    if (!named) return std::move(named).error();
    auto members = others(workspace);
    if (!members) return std::move(members).error();
    if (*named != workspace &&
        std::find(members->begin(), members->end(), *named) == members->end()) {
        return Error{ErrorCode::not_found, *named + " is not linked with " + workspace, {}};
    }
    auto removed = database_.call<bool>(
        [other = *named](store::Connection& connection) {
            return store::unlink_workspace(connection, other);
        },
        Monotonic::now() + kStoreDeadline);
    if (!removed) return std::move(removed).error();
    return *named + " is no longer linked; nothing was deleted";
}

Result<std::vector<LinkedFolder>> Links::check(const std::string& workspace,
                                               shared::TimePoint deadline) {
    auto members = others(workspace);
    if (!members) return std::move(members).error();
    std::vector<Location> locations;
    for (const std::string& member : *members) {
        auto location = parse_location(member);
        locations.push_back(location ? std::move(*location) : Location{});
    }
    const std::vector<Presence> presences = folders_.presence(locations, deadline);
    std::vector<LinkedFolder> found;
    for (std::size_t i = 0; i < members->size(); ++i) {
        found.push_back({(*members)[i], presences[i]});
    }
    return found;
}

Result<json> Links::page(const std::string& workspace) {
    auto checked = check(workspace, Monotonic::now() + kPresenceDeadline);
    if (!checked) return std::move(checked).error();
    json rows = json::array();
    rows.push_back({{"id", workspace}, {"badge", "here"}, {"detail", ""}});
    for (const LinkedFolder& each : *checked) {
        rows.push_back({{"id", each.workspace},
                        {"badge", badge_of(each.presence.kind)},
                        {"detail", each.presence.detail}});
    }
    return json{{"title", "Linked workspaces"}, {"rows", std::move(rows)}};
}

}  // namespace workspaces
