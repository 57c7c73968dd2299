#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <fstream>

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/terminal.h"
#include "shared/home.h"
#include "shared/unique_fd.h"

namespace cli {
namespace {

/// The file's last lines; what a rotation put aside is not looked for.
std::deque<std::string> last_lines(std::istream& file, std::size_t count) {
    std::deque<std::string> lines;
    for (std::string line; std::getline(file, line);) {
        lines.push_back(line);
        if (lines.size() > count) lines.pop_front();
    }
    return lines;
}

ino_t file_number(const std::filesystem::path& path) {
    struct stat status {};
    return stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

/// Prints what is appended to `path`, over rotations, until the reader goes.
void follow(const std::filesystem::path& path, std::ifstream file) {
    const shared::UniqueFd watch(inotify_init1(IN_CLOEXEC));
    inotify_add_watch(watch.get(), path.parent_path().c_str(), IN_MODIFY | IN_CREATE | IN_MOVED_TO);
    ino_t open_file = file_number(path);
    while (true) {
        file.clear();
        char piece[16 * 1024];
        while (file.read(piece, sizeof piece), file.gcount() > 0) {
            const std::string_view bytes(piece, static_cast<std::size_t>(file.gcount()));
            if (!write_output(visible(bytes, Lines::keep))) return;
        }
        if (const ino_t now = file_number(path); now != 0 && now != open_file) {
            open_file = now;
            file = std::ifstream(path);
            continue;
        }
        char events[4096];
        if (read(watch.get(), events, sizeof events) < 0 && errno != EINTR) return;
    }
}

}  // namespace

shared::Result<int> run_logs(const Common& common, const LogsOptions& options) {
    const auto path = shared::HomeLayout(common.home).log_file();
    std::ifstream file(path);
    if (!file) {
        return shared::Error{shared::ErrorCode::not_found,
                             "there is no " + path.string() + " yet; start the daemon: albedo", ""};
    }
    for (const auto& line : last_lines(file, static_cast<std::size_t>(options.lines))) {
        write_output(visible(line) + "\n");
    }
    if (options.follow) follow(path, std::move(file));
    return kOk;
}

}  // namespace cli
