#include "hostagent/probe.h"

#include <nlohmann/json.hpp>

#include "hostagent/command_line.h"
#include "shared/bounded_json.h"

namespace hostagent {

using shared::HostReport;
using shared::HostState;

namespace {

constexpr std::string_view kProgram = R"python(
import json, os, sys

def others():
    """Interpreters at the usual places that would do, each once."""
    found = []
    home = os.path.expanduser("~")
    places = os.environ.get("PATH", "").split(":") + [
        "/usr/local/bin", "/opt/homebrew/bin", home + "/.local/bin", home + "/bin"]
    for place in places:
        for minor in range(11, 20):
            path = os.path.join(place, "python3.%d" % minor)
            if os.access(path, os.X_OK) and path not in found:
                found.append(path)
    return found[:8]

folder = json.loads(sys.stdin.buffer.readline().decode())
system = os.uname()
try:
    import pwd
    user = pwd.getpwuid(os.getuid()).pw_name
except (ImportError, KeyError):
    user = os.environ.get("USER", "")
version = ".".join(map(str, sys.version_info[:3]))
print(json.dumps({
    "os": system[0], "hostname": system[1], "arch": system[4], "user": user,
    "home": os.environ.get("HOME") or os.path.expanduser("~"),
    "python": sys.executable, "python_version": version,
    "staged": os.path.isdir(os.path.expanduser(folder)), "fit": sys.version_info >= (3, 11),
    "others": [] if sys.version_info >= (3, 11) else others()}))
sys.stdout.flush()
)python";

constexpr const char* kNeeds = "needs python >= 3.11";

std::string text_of(const nlohmann::json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

std::string probe_input(const std::string& folder) {
    const nlohmann::json data = folder;
    return input_of(kProgram,
                    data.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + "\n");
}

std::variant<Probed, Verdict> read_probe(std::string_view answer) {
    const auto json = shared::parse_bounded_json(answer);
    if (!json.is_object()) return no_python(answer, {});
    HostReport facts;
    facts.os = text_of(json, "os");
    facts.arch = text_of(json, "arch");
    facts.home = text_of(json, "home");
    facts.hostname = text_of(json, "hostname");
    facts.user = text_of(json, "user");
    facts.python = text_of(json, "python");
    facts.python_version = text_of(json, "python_version");
    if (json.value("fit", nlohmann::json()) != true) {
        std::string detail =
            std::string(kNeeds) + "; " + facts.python + " is " + facts.python_version;
        std::string others;
        if (const auto found = json.find("others"); found != json.end() && found->is_array())
            for (const auto& other : *found)
                if (other.is_string()) others += " " + other.get<std::string>();
        if (!others.empty()) detail += "; found, to be chosen for this host by you:" + others;
        return Verdict{HostState::unsupported, printable(detail)};
    }
    if (facts.home.empty() || facts.home.front() != '/' || facts.python.empty())
        return Verdict{HostState::unsupported, "the host names no home folder, or no interpreter"};
    return Probed{facts, json.value("staged", nlohmann::json()) == true};
}

Verdict no_python(std::string_view said, std::string_view words) {
    std::string detail = kNeeds;
    if (const std::string answer = last_words(said); !answer.empty())
        detail += "; instead of an answer came: " + answer;
    if (const std::string complaint = last_words(words); !complaint.empty())
        detail += "; " + complaint;
    return {HostState::unsupported, detail};
}

}  // namespace hostagent
