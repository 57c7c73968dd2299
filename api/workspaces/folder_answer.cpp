#include "api/workspaces/folder_answer.h"

#include "api/http/json_codec.h"

namespace workspaces {

using nlohmann::json;
using shared::Error;
using shared::ErrorCode;
using shared::Result;

namespace {

std::string text_of(const json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// What Python's own refusals become.
ErrorCode code_of(const std::string& code) {
    if (code == "invalid") return ErrorCode::invalid;
    if (code == "not_found") return ErrorCode::not_found;
    return ErrorCode::failed;
}

}  // namespace

Result<json> read_folder_answer(std::string_view answer, const Location& location) {
    const std::string host = location.target();
    auto parsed = http::parse_json(answer);
    if (!parsed || !parsed->is_object())
        return Error{ErrorCode::protocol, host + " answered what is no JSON object", host};
    json found = std::move(*parsed);
    if (const auto ok = found.find("ok"); ok == found.end() || *ok != true) {
        std::string words = text_of(found, "error");
        if (words.empty()) words = "it could not look";
        return Error{code_of(text_of(found, "code")), std::move(words), host};
    }
    found.erase("ok");
    for (const char* key : {"path", "home"}) {
        const auto text = found.find(key);
        if (text != found.end() && text->is_string())
            *text = location.prefix() + text->get<std::string>();
    }
    return found;
}

Presence read_presence(std::string_view answer) {
    const auto parsed = http::parse_json(answer);
    const std::string kind = parsed && parsed->is_object() ? text_of(*parsed, "kind") : "";
    if (kind == "folder") return {Presence::Kind::there, {}};
    if (kind == "absent" || kind == "file" || kind == "other")
        return {Presence::Kind::gone, kind == "absent" ? "" : "it is a " + kind};
    return {Presence::Kind::unreachable, "the host could not say whether the folder is there"};
}

}  // namespace workspaces
