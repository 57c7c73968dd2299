#include "hostagent/ladder.h"

#include <nlohmann/json.hpp>

#include "hostagent/ssh_failure.h"
#include "shared/bounded_json.h"

namespace hostagent {

using nlohmann::json;
using shared::Error;
using shared::ErrorCode;
using shared::Result;

std::string ladder_request(const std::string& run) {
    return json{{"run", run}}.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

Result<std::string> read_ladder(std::string_view answer, std::string_view words) {
    const json parsed = shared::parse_bounded_json(answer);
    if (!parsed.is_object()) {
        std::string why = last_words(words);
        if (why.empty()) why = last_words(answer);
        return Error{ErrorCode::failed,
                     "the kernel could not be ended there: " + (why.empty() ? "no words" : why),
                     {}};
    }
    if (const auto error = parsed.find("error"); error != parsed.end()) {
        const auto detail = parsed.find("detail");
        const std::string text =
            detail != parsed.end() && detail->is_string() ? detail->get<std::string>() : "no words";
        return Error{*error == "gone" ? ErrorCode::gone : ErrorCode::failed, printable(text), {}};
    }
    return parsed.dump();
}

}  // namespace hostagent
