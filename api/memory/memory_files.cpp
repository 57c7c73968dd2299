#include "api/memory/memory_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "shared/ids.h"
#include "shared/unique_fd.h"

namespace memory {
namespace {

using shared::Error;
using shared::ErrorCode;
using shared::Result;
using shared::UniqueFd;

Error storage_error(const std::filesystem::path& path) {
    return {ErrorCode::storage, path.string() + ": " + std::strerror(errno), {}};
}

Error too_large(const std::filesystem::path& path) {
    return {ErrorCode::too_large, path.string() + " would be over 4 MiB", {}};
}

Result<void> write_all(int fd, std::string_view bytes, const std::filesystem::path& path) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return storage_error(path);
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    if (::fsync(fd) < 0) return storage_error(path);
    return {};
}

Result<void> make_folder_of(const std::filesystem::path& path) {
    std::error_code code;
    std::filesystem::create_directories(path.parent_path(), code);
    if (code)
        return Error{ErrorCode::storage, path.parent_path().string() + ": " + code.message(), {}};
    return {};
}

void sync_folder_of(const std::filesystem::path& path) {
    UniqueFd folder(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder) ::fsync(folder.get());
}

}  // namespace

std::string MemoryFiles::memory_file(std::string_view slug) {
    return std::string(slug) + "/memory.md";
}

std::string MemoryFiles::journal_file(std::string_view slug, std::string_view date) {
    return std::string(slug) + "/journal/" + std::string(date) + ".md";
}

Result<std::string> MemoryFiles::read(const std::string& file) const {
    const auto path = memories_ / file;
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd) {
        if (errno == ENOENT) return std::string();
        return storage_error(path);
    }
    std::string content;
    char piece[64 * 1024];
    for (;;) {
        const ssize_t got = ::read(fd.get(), piece, sizeof piece);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return storage_error(path);
        if (got == 0) return content;
        content.append(piece, static_cast<std::size_t>(got));
        if (content.size() > kMaxMemoryBytes) return too_large(path);
    }
}

Result<void> MemoryFiles::save(const std::string& file, std::string_view content) const {
    const auto path = memories_ / file;
    if (content.size() > kMaxMemoryBytes) return too_large(path);
    if (auto made = make_folder_of(path); !made) return made;
    const auto fresh = std::filesystem::path(path.string() + "." + shared::random_hex(4));
    UniqueFd fd(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd) return storage_error(fresh);
    auto written = write_all(fd.get(), content, fresh);
    if (written && ::rename(fresh.c_str(), path.c_str()) < 0) written = storage_error(path);
    if (!written) {
        ::unlink(fresh.c_str());
        return written;
    }
    sync_folder_of(path);
    return {};
}

Result<AppendPlan> MemoryFiles::plan(const std::string& file, std::string_view text) const {
    auto before = read(file);
    if (!before) return std::move(before).error();
    AppendPlan plan{file, before->size(), {}};
    if (!before->empty() && before->back() != '\n')
        plan.bytes = "\n";  // a person's editor left it so
    plan.bytes.append(text).append("\n");
    if (plan.size_before + plan.bytes.size() > kMaxMemoryBytes) return too_large(memories_ / file);
    return plan;
}

Result<void> MemoryFiles::apply(const AppendPlan& plan) const {
    auto content = read(plan.file);
    if (!content) return std::move(content).error();
    std::string_view rest = plan.bytes;
    if (content->size() > plan.size_before) {
        const std::string_view after = std::string_view(*content).substr(plan.size_before);
        if (after.find(plan.bytes) != after.npos) return {};
        // Cut in the middle of our own write: only what is missing is added.
        if (plan.bytes.starts_with(after)) rest.remove_prefix(after.size());
    }
    const auto path = memories_ / plan.file;
    if (auto made = make_folder_of(path); !made) return made;
    UniqueFd fd(::open(path.c_str(),
                       O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    if (!fd) return storage_error(path);
    if (auto written = write_all(fd.get(), rest, path); !written) return written;
    if (plan.size_before == 0) sync_folder_of(path);
    return {};
}

}  // namespace memory
