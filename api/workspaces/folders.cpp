#include "api/workspaces/folders.h"

#include <future>
#include <thread>

#include "api/http/json_codec.h"

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

/// What Python's own refusals become.
ErrorCode code_of(const json& answer) {
    const auto code = answer.value("code", "");
    if (code == "invalid") return ErrorCode::invalid;
    if (code == "not_found") return ErrorCode::not_found;
    return ErrorCode::failed;
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
    auto parsed = http::parse_json(answer->json);
    if (!parsed || !parsed->is_object()) {
        return LookError{
            Error{ErrorCode::protocol, host + " answered what is no JSON object", host}, {}};
    }
    json found = std::move(*parsed);
    if (!found.value("ok", false)) {
        return LookError{Error{code_of(found), found.value("error", "it could not look"), host},
                         {}};
    }
    found.erase("ok");
    for (const char* key : {"path", "home"}) {
        const auto text = found.find(key);
        if (text != found.end() && text->is_string()) {
            *text = location.prefix() + text->get<std::string>();
        }
    }
    return found;
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
    auto parsed = http::parse_json(answer->json);
    const std::string kind = parsed && parsed->is_object() ? parsed->value("kind", "") : "";
    if (kind == "folder") return {Presence::Kind::there, {}};
    if (kind == "absent" || kind == "file" || kind == "other") {
        return {Presence::Kind::gone, kind == "absent" ? "" : "it is a " + kind};
    }
    return {Presence::Kind::unreachable, "the host could not say whether the folder is there"};
}

}  // namespace workspaces
