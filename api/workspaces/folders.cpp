#include "api/workspaces/folders.h"

#include <future>
#include <thread>

namespace workspaces {
namespace {

using nlohmann::json;
using shared::Error;
using shared::ErrorCode;

std::string path_of(const Location& location) {
    if (!location.is_home_relative) return location.path;
    return location.path.empty() ? "~" : "~/" + location.path;
}

std::string percent_encoded(std::string_view bytes) {
    constexpr char kHex[] = "0123456789ABCDEF";
    std::string text;
    for (const unsigned char each : bytes) {
        text += {'%', kHex[each >> 4], kHex[each & 15]};
    }
    return text;
}

std::string request_text(const std::string& op, const Location& location) {
    const std::string path = path_of(location);
    try {
        return json{{"op", op}, {"path", path}}.dump(-1, ' ', true);
    } catch (const json::type_error&) {  // a path that is no UTF-8 travels byte by byte
        return json{{"op", op}, {"raw", percent_encoded(path)}}.dump();
    }
}

}  // namespace

std::variant<json, LookError> Folders::ask(const std::string& op, const Location& location,
                                           shared::TimePoint deadline) {
    const std::string host = location.target();
    shared::Browse request;
    request.request = request_text(op, location);
    auto answer = hosts_.call(host, std::move(request), deadline, agents::WhenFull::refuse);
    if (!answer) return LookError{std::move(answer).error(), {}};
    if (!answer->ok) {
        return LookError{Error{answer->code, answer->message, host}, std::move(answer->report)};
    }
    auto found = read_folder_answer(answer->json, location);
    if (!found) return LookError{std::move(found).error(), {}};
    return std::move(*found);
}

std::vector<Presence> Folders::presence(const std::vector<Location>& locations,
                                        shared::TimePoint deadline) {
    std::vector<std::future<Presence>> looks;
    for (const Location& location : locations) {
        looks.push_back(std::async(
            std::launch::async, [this, &location, deadline] { return look(location, deadline); }));
    }
    std::vector<Presence> found;
    for (auto& each : looks) found.push_back(each.get());
    return found;
}

Presence Folders::look(const Location& location, shared::TimePoint deadline) {
    shared::Browse request;
    request.fresh = true;
    request.request = request_text("stat", location);
    auto answer =
        hosts_.call(location.target(), std::move(request), deadline, agents::WhenFull::wait);
    if (!answer) {
        const bool late = answer.error().code == ErrorCode::timed_out;
        return {late ? Presence::Kind::unanswered : Presence::Kind::unreachable,
                answer.error().message};
    }
    if (!answer->ok) {
        const auto kind = answer->code == ErrorCode::needs_auth  ? Presence::Kind::needs_auth
                          : answer->code == ErrorCode::timed_out ? Presence::Kind::unanswered
                                                                 : Presence::Kind::unreachable;
        return {kind, answer->message};
    }
    return read_presence(answer->json);
}

}  // namespace workspaces
