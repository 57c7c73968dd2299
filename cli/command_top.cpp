// The daemon's processes and hosts as they are now, shown anew every second until `q` or Ctrl-C.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <map>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/json_fields.h"
#include "cli/process_memory.h"
#include "cli/terminal.h"

namespace cli {
namespace {

constexpr int kPeriodMs = 1'000;
constexpr int kNarrow = 20;  // columns that a screen has at least

volatile std::sig_atomic_t ended = 0;
void end(int) {
    ended = 1;
}

/// The screen of our own while it lives: no echo, no line editing, the other screen's text kept.
class Screen {
  public:
    Screen() {
        ::tcgetattr(STDIN_FILENO, &before_);
        termios raw = before_;
        raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
        ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
        struct sigaction action {};
        action.sa_handler = end;
        for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(number, &action, nullptr);
        write_output("\033[?1049h\033[?25l");
    }
    ~Screen() {
        write_output("\033[?25h\033[?1049l");
        ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
    }
    Screen(const Screen&) = delete;
    Screen& operator=(const Screen&) = delete;

    /// `text` from the top left, cut to the screen. Its lines are plain.
    static void show(const std::string& text) {
        winsize size{};
        ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        // A terminal that does not say its size has the old one.
        const std::size_t columns = size.ws_col == 0 ? 80 : std::max<int>(size.ws_col, kNarrow);
        std::size_t rows = size.ws_row == 0 ? 24 : std::max<int>(size.ws_row, 2);
        std::string out = "\033[H";
        for (std::size_t at = 0; at < text.size() && rows > 1; --rows) {
            const auto stop = std::min(text.find('\n', at), text.size());
            std::size_t cut = at, wide = 0;
            while (cut < stop && wide < columns) {
                ++wide;
                do ++cut;
                while (cut < stop && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80);
            }
            out += text.substr(at, cut - at) + "\033[K\r\n";
            at = stop + 1;
        }
        write_output(out + "\033[J");
    }

  private:
    termios before_{};
};

/// User and system time of a process in clock ticks.
std::optional<long> ticks_of(int pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    if (!std::getline(file, line)) return std::nullopt;
    const auto after = line.rfind(") ");
    if (after == std::string::npos) return std::nullopt;
    long user = 0, system = 0;
    if (std::sscanf(line.c_str() + after + 2,
                    "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user, &system) != 2)
        return std::nullopt;
    return user + system;
}

std::string fixed(double value, const char* unit) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f%s", value, unit);
    return text;
}

/// One look; CPU is since the last one.
class Looks {
  public:
    explicit Looks(Client& client) : client_(client) {}

    shared::Result<Json> look() {
        auto health = client_.get("/health");
        if (!health) return health.error();
        auto sessions = client_.get("/sessions");
        if (!sessions) return sessions.error();
        const auto now = shared::Monotonic::now();
        const double seconds = std::chrono::duration<double>(now - last_).count();
        last_ = now;
        std::map<int, long> ticks;
        Json rows = Json::array();
        for (auto& process : (*health)["processes"]) {
            const int pid = process.value("pid", 0);
            Json row = {{"process", text_at(process, "name")},
                        {"host", text_at(process, "host")},
                        {"pid", pid},
                        {"state", text_at(process, "state")},
                        {"restarts", process.value("restarts", 0)},
                        {"up_ms", shared::wall_ms() - process.value("since_wall_ms", std::int64_t{0})}};
            if (const auto used = pid > 0 ? ticks_of(pid) : std::nullopt) {
                ticks[pid] = *used;
                if (const auto before = ticks_.find(pid); before != ticks_.end() && seconds > 0)
                    row["cpu_percent"] = 100.0 * static_cast<double>(*used - before->second) /
                                         static_cast<double>(::sysconf(_SC_CLK_TCK)) / seconds;
            }
            if (const auto pss = pid > 0 ? pss_kib(pid) : std::nullopt) row["pss_kib"] = *pss;
            const auto counters = process.value("counters", Json::object());
            for (const char* name : {"calls_in_flight", "kernels", "cells", "requests"})
                row[name] = counters.value(name, std::int64_t{0});
            rows.push_back(std::move(row));
        }
        ticks_ = std::move(ticks);
        return Json{{"version", text_at(*health, "version")},
                    {"sessions", sessions->size()},
                    {"processes", std::move(rows)}};
    }

  private:
    Client& client_;
    shared::TimePoint last_{};
    std::map<int, long> ticks_;
};

std::string shown(const Json& look) {
    std::vector<std::vector<std::string>> rows{
        {"PROCESS", "HOST", "PID", "STATE", "UP", "CPU", "MEMORY", "RESTARTS", "KERNELS", "CALLS"}};
    for (const auto& row : look["processes"]) {
        const bool agent = text_at(row, "process") == "agent";
        rows.push_back({text_at(row, "process"), text_at(row, "host"),
                        std::to_string(row.value("pid", 0)), text_at(row, "state"),
                        duration_text(row.value("up_ms", std::int64_t{0})),
                        row.contains("cpu_percent") ? fixed(row["cpu_percent"], " %") : "-",
                        row.contains("pss_kib")
                            ? fixed(row["pss_kib"].get<double>() / 1024, " MiB")
                            : "-",
                        std::to_string(row.value("restarts", 0)),
                        agent ? std::to_string(row.value("kernels", std::int64_t{0})) : "",
                        agent ? std::to_string(row.value("calls_in_flight", std::int64_t{0})) : ""});
    }
    return "albedo " + visible(text_at(look, "version")) + ", " +
           std::to_string(look["sessions"].get<std::size_t>()) + " sessions    q ends\n\n" +
           table(rows);
}

}  // namespace

shared::Result<int> run_top(const Common& common, const TopOptions& options) {
    Client client(common.home);
    Looks looks(client);
    auto first = looks.look();
    if (!first) return first.error();
    const bool live = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
    if (options.once || common.json || !live) {
        write_output(common.json ? first->dump() + "\n" : shown(*first));
        return kOk;
    }
    Screen screen;
    std::string text = shown(*first);
    while (ended == 0) {
        Screen::show(text);
        pollfd keys{STDIN_FILENO, POLLIN, 0};
        if (::poll(&keys, 1, kPeriodMs) > 0) {
            char key = 'q';
            if (::read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q') break;
        }
        // A daemon that goes away stays on the screen as words until it is back.
        const auto look = looks.look();
        text = look ? shown(*look) : "albedo: " + visible(look.error().message) + "\n";
    }
    return kOk;
}

}  // namespace cli
