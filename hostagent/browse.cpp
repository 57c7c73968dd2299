#include "hostagent/browse.h"

#include <nlohmann/json.hpp>

#include "hostagent/command_line.h"
#include "hostagent/ssh_failure.h"

namespace hostagent {

using nlohmann::json;
using shared::Error;
using shared::ErrorCode;
using shared::Result;

namespace {

// stdin: the bundle's folder in hex (empty: there is none yet), then the question.
constexpr std::string_view kProgram = R"python(
import os, stat, sys

def look(path):
    """Answers `stat` with nothing but Python: for hosts that have no bundle yet."""
    path = os.path.normpath(os.path.expanduser(path))
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return {"ok": True, "path": path, "kind": "absent"}
    except (OSError, ValueError) as fault:
        return {"ok": True, "path": path, "kind": "unreadable", "detail": str(fault)}
    kind = "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"
    return {"ok": True, "path": path, "kind": kind}

folder = os.fsdecode(bytes.fromhex(sys.stdin.buffer.readline().decode()))
question = sys.stdin.buffer.readline()
if folder:
    sys.path.insert(0, os.path.expanduser(folder))
try:
    from albedo_json import dumps, loads
except ImportError:
    import json
    loads, dumps = json.loads, lambda value: json.dumps(value).encode()
request = loads(question)
if request.get("op") == "stat" and isinstance(request.get("path"), str):
    answer = look(request["path"])
else:
    import albedo_calls
    answer = albedo_calls.handle(request)
sys.stdout.buffer.write(dumps(answer) + b"\n")
sys.stdout.flush()
)python";

std::string hex(std::string_view bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const unsigned char each : bytes) text += {kDigits[each >> 4], kDigits[each & 15]};
    return text;
}

std::string line(const json& value) {
    return value.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string browse_input(const std::string& folder, std::string_view request) {
    // Parsed and written anew, so that it is one line of ASCII whatever it was.
    const json parsed = json::parse(request, nullptr, false);
    return input_of(kProgram,
                    hex(folder) + "\n" + line(parsed.is_object() ? parsed : json::object()));
}

bool needs_no_bundle(std::string_view request) {
    const json parsed = json::parse(request, nullptr, false);
    return parsed.is_object() && parsed.value("op", json()) == "stat";
}

Result<std::string> browse_call(std::string_view request, std::uint64_t id) {
    json parsed = json::parse(request, nullptr, false);
    if (!parsed.is_object()) return Error{ErrorCode::invalid, "the question is no JSON object", {}};
    parsed["id"] = id;
    return parsed.dump(-1, ' ', true, json::error_handler_t::replace);
}

Result<std::string> read_browse(std::string_view answer, std::string_view words) {
    const auto end = answer.find('\n');
    if (end != std::string_view::npos) {
        const std::string_view first = answer.substr(0, end);
        // Whoever asked reads it; here it only has to look like an answer and not like words.
        if (first.size() >= 2 && first.front() == '{' && first.back() == '}')
            return std::string(first);
    }
    std::string why = last_words(words);
    if (why.empty()) why = last_words(answer);
    return Error{
        ErrorCode::failed, "the host could not answer: " + (why.empty() ? "no words" : why), {}};
}

}  // namespace hostagent
