#include "hostagent/bridge_words.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "hostagent/ssh_failure.h"
#include "shared/bounded_json.h"

namespace hostagent {

using nlohmann::json;
using shared::CloseReason;
using shared::Error;
using shared::ErrorCode;
using shared::HostReport;
using shared::Result;

namespace {

constexpr int kProtocol = 1;

std::string text_of(const json& object, const char* key) {
    if (!object.is_object()) return {};
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

Result<HostReport> read_ready(std::string_view payload) {
    const json said = shared::parse_bounded_json(payload);
    if (!said.is_object())
        return Error{ErrorCode::protocol, "the bridge's first frame is no JSON", {}};
    if (said.value("protocol", json()) != kProtocol)
        return Error{ErrorCode::unsupported, "the bridge speaks another protocol", {}};
    HostReport facts;
    facts.os = text_of(said, "os");
    facts.arch = text_of(said, "arch");
    facts.home = text_of(said, "home");
    facts.hostname = text_of(said, "hostname");
    facts.user = text_of(said, "user");
    facts.python = text_of(said, "python");
    facts.python_version = text_of(said, "python_version");
    if (facts.home.empty() || facts.python.empty())
        return Error{ErrorCode::protocol, "the bridge names no home or no interpreter", {}};
    return facts;
}

std::string read_opened(std::string_view payload) {
    return text_of(shared::parse_bounded_json(payload), "run");
}

Closed read_closed(std::string_view payload) {
    static constexpr std::array kReasons{CloseReason::dropped,   CloseReason::gone,
                                         CloseReason::elsewhere, CloseReason::no_folder,
                                         CloseReason::overflow,  CloseReason::failed};
    const json said = shared::parse_bounded_json(payload);
    Closed closed;
    const std::string reason = text_of(said, "reason");
    for (const auto known : kReasons)
        if (reason == shared::to_string(known)) closed.reason = known;
    closed.detail = printable(text_of(said, "detail"));
    return closed;
}

}  // namespace hostagent
