// What a person would have to look at when something does not work, each with what to do.
//
// Looks at this machine and at a daemon that runs already; starts none, and asks a host only when
// it is named.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/json_fields.h"
#include "cli/terminal.h"
#include "shared/child_process.h"

namespace cli {
namespace {

constexpr shared::Milliseconds kProgramPatience{5'000};
constexpr std::uint64_t kLittleBytes = 64u << 20;   // a database that grows by a day's output
constexpr std::uint64_t kFailingBytes = 4u << 20;   // writes are about to be refused
constexpr std::int64_t kAhead = 5 * 60'000;         // ids made so far ahead are refused
constexpr std::int64_t kEarliestMs = 1'767'225'600'000;  // 2026: this version's own year

struct Finding {
    const char* level;  // "ok", "warn", "fail"
    std::string what;
    std::string words;
    std::string next;  // what to do; empty when there is nothing
};
using Findings = std::vector<Finding>;

/// The first line that a program prints on either stream.
shared::Result<std::string> first_line_of(const std::vector<std::string>& argv) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        return shared::Error{shared::ErrorCode::failed, std::strerror(errno), {}};
    shared::UniqueFd reading(ends[0]), writing(ends[1]);
    shared::SpawnOptions options;
    options.argv = argv;
    options.descriptors = {{writing.get(), 1}, {writing.get(), 2}};
    auto child = shared::ChildProcess::spawn(options);
    if (!child) return child.error();
    writing.reset();
    const auto ended = child->end({.ask = kProgramPatience});
    char text[512];
    const ssize_t got = ::read(reading.get(), text, sizeof text);
    std::string line(text, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    line = line.substr(0, line.find('\n'));
    if (!ended.clean())
        return shared::Error{shared::ErrorCode::failed,
                             ended.text() + (line.empty() ? "" : ": " + line),
                             {}};
    return line;
}

void look_at_programs(Findings& found) {
    if (auto ssh = first_line_of({"ssh", "-V"}))
        found.push_back({"ok", "ssh", *ssh, ""});
    else
        found.push_back({"fail", "ssh", ssh.error().message, "install openssh-client"});
    auto python = first_line_of(
        {"python3", "-I", "-c",
         "import sys;print('%d.%d.%d %s'%(*sys.version_info[:3],sys.executable));"
         "sys.exit(sys.version_info<(3,11))"});
    if (python)
        found.push_back({"ok", "python3", *python, ""});
    else
        found.push_back({"fail", "python3", python.error().message,
                         "install python 3.11 or newer, first in PATH, for folders here"});
}

void look_at_ssh_files(Findings& found) {
    const char* home = std::getenv("HOME");
    const std::string config = std::string(home != nullptr ? home : "") + "/.ssh/config";
    struct stat state {};
    if (::stat(config.c_str(), &state) != 0) {
        found.push_back({"ok", "ssh config", errno == ENOENT ? "there is none" : std::strerror(errno),
                         ""});
    } else if ((state.st_mode & 022) != 0 || (state.st_uid != ::getuid() && state.st_uid != 0)) {
        found.push_back({"fail", "ssh config", config + " may be written by others: ssh refuses it",
                         "chmod go-w " + config});
    } else {
        found.push_back({"ok", "ssh config", config, ""});
    }
    const char* agent = std::getenv("SSH_AUTH_SOCK");
    if (agent == nullptr || *agent == '\0') {
        found.push_back({"warn", "ssh agent", "SSH_AUTH_SOCK is not set",
                         "keys with a passphrase need one: eval $(ssh-agent), ssh-add; or sign in "
                         "with albedo hosts login HOST"});
        return;
    }
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, agent, sizeof address.sun_path - 1);
    const shared::UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
        found.push_back({"ok", "ssh agent", agent, ""});
    else
        found.push_back({"warn", "ssh agent", std::string(agent) + ": " + std::strerror(errno),
                         "log in anew, or start ssh-agent; a daemon that runs keeps the old name "
                         "until albedo shutdown"});
}

void look_at_home(const std::filesystem::path& home, Findings& found) {
    struct stat state {};
    if (::stat(home.c_str(), &state) != 0) {
        if (errno == ENOENT)
            found.push_back({"ok", "home", home.string() + " will be made by the first command", ""});
        else
            found.push_back({"fail", "home", home.string() + ": " + std::strerror(errno),
                             "set ALBEDO_HOME to a folder of your own"});
        return;
    }
    if ((state.st_mode & 077) != 0)
        found.push_back({"warn", "home", home.string() + " can be read by others",
                         "chmod 700 " + home.string()});
    else
        found.push_back({"ok", "home", home.string(), ""});
    struct statvfs disk {};
    if (::statvfs(home.c_str(), &disk) != 0) return;
    const std::uint64_t bytes = std::uint64_t{disk.f_bavail} * disk.f_frsize;
    const std::string words = std::to_string(bytes >> 20) + " MiB and " +
                              std::to_string(disk.f_favail) + " inodes are free";
    const bool no_inodes = disk.f_files > 0 && disk.f_favail < 100;
    if (bytes < kFailingBytes || no_inodes)
        found.push_back({"fail", "disk", words, "make room: writes are about to be refused"});
    else
        found.push_back({bytes < kLittleBytes ? "warn" : "ok", "disk", words,
                         bytes < kLittleBytes ? "make room soon" : ""});
}

void look_at_clock(std::int64_t daemon_started_ms, Findings& found) {
    const auto now = shared::wall_ms();
    if (now < kEarliestMs)
        found.push_back({"fail", "clock", "it is before this program was made",
                         "set the clock: ids made now would be refused later"});
    else if (daemon_started_ms > now + kAhead)
        found.push_back({"fail", "clock", "the daemon was started in the future",
                         "the clock was set back: albedo shutdown, then go on"});
    else
        found.push_back({"ok", "clock", "", ""});
}

void look_at_daemon(const Common& common, Findings& found) {
    const auto running = running_daemon(common.home);
    if (!running) {
        found.push_back({"ok", "daemon", "none runs; the next command starts it", ""});
        return look_at_clock(0, found);
    }
    Client client(common.home);
    const auto health = client.get("/health", kProgramPatience);
    if (!health) {
        found.push_back({"fail", "daemon",
                         "pid " + std::to_string(running->pid) + ": " + health.error().message,
                         "albedo logs; then albedo shutdown"});
        return;
    }
    const std::string version = text_at(*health, "version");
    if (version != ALBEDO_VERSION)
        found.push_back({"warn", "daemon",
                         "version " + version + " runs, this is " + ALBEDO_VERSION,
                         "albedo shutdown: kernels go on, the next command starts the new one"});
    else
        found.push_back(
            {"ok", "daemon", "pid " + std::to_string(running->pid) + ", version " + version, ""});
    for (const auto& process : health->value("processes", Json::array())) {
        const std::string state = text_at(process, "state");
        if (state == "up") continue;
        const std::string host = text_at(process, "host");
        found.push_back({"fail", host.empty() ? text_at(process, "name") : "host " + host,
                         state + ": " + text_at(process, "last_death"),
                         host.empty() ? "albedo logs" : "albedo hosts why " + host});
    }
    look_at_clock(health->value("started_wall_ms", std::int64_t{0}), found);
    if (const auto config = client.get("/config", kProgramPatience)) {
        const bool ok = config->value("ok", false);
        found.push_back({ok ? "ok" : "fail", "config.json",
                         ok ? text_at(*config, "path") : text_at(*config, "error"),
                         ok ? "" : "albedo config check"});
    }
}

void look_at_host(Client& client, const std::string& host, Findings& found) {
    const auto answer = client.post("/hosts/" + path_segment(host) + "/warm", Json::object());
    if (!answer) {
        found.push_back({"fail", "host " + host, answer.error().message, "albedo hosts why " + host});
        return;
    }
    const std::string state = text_at(*answer, "state");
    if (state == "ready")
        found.push_back({"ok", "host " + host,
                         text_at(*answer, "os") + " " + text_at(*answer, "arch") + ", python " +
                             text_at(*answer, "python_version"),
                         ""});
    else
        found.push_back({"fail", "host " + host, state + ": " + text_at(*answer, "detail"),
                         state == "needs_auth" ? "albedo hosts login " + host
                                               : "albedo hosts why " + host});
}

}  // namespace

shared::Result<int> run_doctor(const Common& common, const DoctorOptions& options) {
    Findings found;
    look_at_programs(found);
    look_at_ssh_files(found);
    look_at_home(common.home, found);
    look_at_daemon(common, found);
    if (!options.hosts.empty()) {
        Progress progress([&] { return "asking " + std::to_string(options.hosts.size()) + " hosts"; });
        Client client(common.home);
        for (const auto& host : options.hosts) look_at_host(client, host, found);
        progress.end();
    }
    bool good = true;
    Json rows = Json::array();
    std::string text;
    for (const auto& each : found) {
        good = good && std::strcmp(each.level, "fail") != 0;
        rows.push_back({{"level", each.level},
                        {"what", each.what},
                        {"words", each.words},
                        {"next", each.next}});
        text += std::string(each.level).append(6 - std::strlen(each.level), ' ') +
                visible(each.what) + (each.words.empty() ? "" : ": " + visible(each.words)) + "\n";
        if (!each.next.empty()) text += "      -> " + visible(each.next) + "\n";
    }
    write_output(common.json
                     ? Json{{"ok", good}, {"findings", rows}}.dump(
                           -1, ' ', false, Json::error_handler_t::replace) + "\n"
                     : text);
    return good ? kOk : kFailed;
}

}  // namespace cli
