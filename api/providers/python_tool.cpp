#include "api/providers/python_tool.h"

#include <algorithm>

#include "api/providers/provider_json.h"

namespace providers {

ToolSpec python_tool() {
    return {
        std::string(kPythonTool),
        "Run Python code in this session's persistent kernel and return its status, printed "
        "output and the value of the last expression.",
        dump_json({{"type", "object"},
                   {"properties",
                    {{"code", {{"type", "string"}, {"description", "Python source of one cell"}}},
                     {"timeout_ms",
                      {{"type", "integer"},
                       {"description", "Wall time after which the cell is interrupted"}}}}},
                   {"required", {"code"}},
                   {"additionalProperties", false}})};
}

shared::Result<PythonCall> parse_python_call(const std::string& name,
                                             const std::string& arguments) {
    auto refuse = [](std::string why) {
        return shared::Error{shared::ErrorCode::invalid, std::move(why), {}};
    };
    if (name != kPythonTool)
        return refuse("There is no tool named " + name + "; the only tool is python.");
    const auto value = parse_json(arguments);
    if (!value || !value->is_object())
        return refuse("The arguments of python must be a JSON object such as {\"code\": \"1+1\"}.");
    const auto& code = member_of(*value, "code");
    if (!code.is_string()) return refuse("The arguments of python must hold \"code\", a text.");
    PythonCall call;
    call.code = code.get<std::string>();
    const auto& timeout = member_of(*value, "timeout_ms");
    if (timeout.is_number())
        call.timeout_ms = static_cast<std::int64_t>(
            std::clamp(timeout.get<double>(), 1.0, static_cast<double>(kMaxCellTimeoutMs)));
    else if (!timeout.is_null())
        return refuse("\"timeout_ms\" must be a number of milliseconds.");
    return call;
}

std::string stand_in_result(const std::string& status, const std::string& words) {
    return dump_json({{"status", status}, {"output", words}, {"value", nullptr}});
}

}  // namespace providers
