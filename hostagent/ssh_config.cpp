#include "hostagent/ssh_config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "shared/unique_fd.h"

namespace hostagent {

namespace fs = std::filesystem;
using shared::Error;
using shared::ErrorCode;
using shared::Result;

namespace {

constexpr std::size_t kDigestBytes = 41;  // "/" and what %C becomes

bool is_ours(const fs::path& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
           status.st_uid == ::geteuid() && (status.st_mode & 0777) == 0700;
}

bool make_ours(const fs::path& path) {
    return (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) && is_ours(path);
}

bool short_enough(const fs::path& folder) {
    return folder.native().size() + kDigestBytes <= kMaxControlPathBytes;
}

std::string read_line(const fs::path& file) {
    const shared::UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    char text[512];
    const ssize_t got = fd ? ::read(fd.get(), text, sizeof text) : -1;
    if (got <= 0) return {};
    const std::string_view line(text, static_cast<std::size_t>(got));
    return std::string(line.substr(0, line.find('\n')));
}

}  // namespace

SshConfig parse_ssh_config(std::string_view answer) {
    SshConfig config;
    while (!answer.empty()) {
        const auto end = std::min(answer.find('\n'), answer.size());
        std::string_view line = answer.substr(0, end);
        answer.remove_prefix(std::min(end + 1, answer.size()));
        const auto blank = line.find(' ');
        if (blank == std::string_view::npos) continue;
        const std::string_view name = line.substr(0, blank);
        const std::string value(line.substr(blank + 1));
        if (name == "controlpath" && value != "none")
            config.control_path = value;
        else if (name == "controlpersist" && value != "no" && value != "false")
            config.control_persist = value;
        else if (name == "serveraliveinterval" && value != "0" && value != "300")
            config.has_keep_alives = true;
    }
    return config;
}

bool is_usable_control_path(const std::string& expanded) {
    return !expanded.empty() && expanded.front() == '/' && expanded.size() <= kMaxControlPathBytes;
}

Result<fs::path> runtime_folder(const fs::path& albedo_home) {
    if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime && runtime[0] == '/') {
        const fs::path folder = fs::path(runtime) / "albedo";
        if (short_enough(folder) && make_ours(folder)) return folder;
    }
    const fs::path usual = "/tmp/albedo-" + std::to_string(::geteuid());
    if (make_ours(usual)) return usual;
    // Somebody else took that name. A name nobody could guess is kept for the next time.
    const fs::path record = albedo_home / "ssh-folder";
    if (const fs::path kept = read_line(record);
        !kept.empty() && short_enough(kept) && is_ours(kept))
        return kept;
    std::string fresh = "/tmp/albedo-XXXXXX";
    if (!::mkdtemp(fresh.data()))
        return Error{
            ErrorCode::storage,
            std::string("no private folder for ssh's control sockets: ") + std::strerror(errno),
            {}};
    const shared::UniqueFd fd(
        ::open(record.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    const std::string line = fresh + "\n";
    if (fd && ::write(fd.get(), line.data(), line.size()) < 0) return fs::path(fresh);
    return fs::path(fresh);
}

std::string config_stamp() {
    const char* home = std::getenv("HOME");
    if (!home) return {};
    std::string stamp;
    for (const char* name : {"", "/config", "/known_hosts"}) {
        struct stat status {};
        if (::stat((std::string(home) + "/.ssh" + name).c_str(), &status) != 0) continue;
        stamp += std::to_string(status.st_mtim.tv_sec) + "." +
                 std::to_string(status.st_mtim.tv_nsec) + "," + std::to_string(status.st_size) +
                 ";";
    }
    return stamp;
}

}  // namespace hostagent
