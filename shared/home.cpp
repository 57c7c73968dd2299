#include "shared/home.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shared/ids.h"

namespace shared {
namespace {

constexpr int kProtocol = 1;

Error storage_error(const std::filesystem::path& path, int error = errno) {
    return {ErrorCode::storage, path.string() + ": " + std::strerror(error), {}};
}

Result<void> write_all(int fd, std::string_view content, const std::filesystem::path& path) {
    while (!content.empty()) {
        const ssize_t written = ::write(fd, content.data(), content.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return storage_error(path);
        content.remove_prefix(static_cast<std::size_t>(written));
    }
    return {};
}

}  // namespace

std::filesystem::path default_home() {
    if (const char* set = std::getenv("ALBEDO_HOME"); set && *set) {
        return std::filesystem::absolute(set);
    }
    const char* user = std::getenv("HOME");
    if (!user || !*user) {
        const passwd* entry = ::getpwuid(::getuid());
        user = entry ? entry->pw_dir : "/";
    }
    return std::filesystem::absolute(user) / ".albedo";
}

Result<void> make_home(const std::filesystem::path& home) {
    std::error_code code;
    std::filesystem::create_directories(home.parent_path(), code);
    if (code) return storage_error(home.parent_path(), code.value());
    if (::mkdir(home.c_str(), 0700) < 0 && errno != EEXIST) return storage_error(home);
    struct stat found {};
    if (::stat(home.c_str(), &found) < 0) return storage_error(home);
    if (!S_ISDIR(found.st_mode)) return storage_error(home, ENOTDIR);
    if (found.st_uid != ::getuid()) {
        return Error{ErrorCode::storage, home.string() + " belongs to another user", {}};
    }
    if ((found.st_mode & 077) != 0 && ::chmod(home.c_str(), 0700) < 0) return storage_error(home);
    return {};
}

Result<std::optional<HomeLock>> HomeLock::try_take(const std::filesystem::path& home) {
    const auto path = HomeLayout(home).lock_file();
    UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return storage_error(path);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) {
        return std::optional<HomeLock>(HomeLock(std::move(file)));
    }
    if (errno == EWOULDBLOCK) return std::optional<HomeLock>();
    return storage_error(path);
}

bool HomeLock::is_held(const std::filesystem::path& home) {
    UniqueFd file(::open(HomeLayout(home).lock_file().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    // A shared lock for an instant: a supervisor that starts just then tries again for 2 s.
    return file && ::flock(file.get(), LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

std::optional<DaemonRecord> read_daemon_record(const std::filesystem::path& home) {
    std::ifstream file(HomeLayout(home).record_file());
    const auto json = nlohmann::json::parse(file, nullptr, false);
    if (!json.is_object()) return std::nullopt;
    try {
        DaemonRecord record;
        record.pid = json.at("pid").get<pid_t>();
        record.port = json.at("port").get<std::uint16_t>();
        record.token = json.at("token").get<std::string>();
        record.version = json.value("version", "");
        record.started_wall_ms = json.value("started_at", std::int64_t{0});
        return record;
    } catch (const nlohmann::json::exception&) {
        return std::nullopt;
    }
}

Result<void> write_daemon_record(const std::filesystem::path& home, const DaemonRecord& record) {
    const nlohmann::json json{{"pid", record.pid},         {"port", record.port},
                              {"token", record.token},     {"protocol", kProtocol},
                              {"version", record.version}, {"started_at", record.started_wall_ms}};
    return write_private_file(HomeLayout(home).record_file(), json.dump(2) + "\n");
}

Result<void> write_private_file(const std::filesystem::path& file, std::string_view content) {
    const std::filesystem::path fresh = file.string() + "." + random_hex(4);
    UniqueFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd) return storage_error(fresh);
    auto written = write_all(fd.get(), content, fresh);
    if (written && ::fsync(fd.get()) < 0) written = storage_error(fresh);
    if (written && ::rename(fresh.c_str(), file.c_str()) < 0) written = storage_error(file);
    if (!written) ::unlink(fresh.c_str());
    return written;
}

}  // namespace shared
