#include "shared/log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <mutex>
#include <unordered_map>

#include "shared/clock.h"
#include "shared/unique_fd.h"

namespace shared {
namespace {

constexpr Milliseconds kRepeatWindow{60'000};
constexpr Milliseconds kReopenPause{1'000};
constexpr std::size_t kMaxLineBytes = 4096;  // also keeps a line one atomic append
constexpr std::size_t kMaxTexts = 1024;      // remembered for counting repeats

struct Repeats {
    TimePoint since;
    int written = 0;
    std::uint64_t held_back = 0;
};

const char* level_name(LogLevel level) {
    switch (level) {
        case LogLevel::debug:
            return "debug";
        case LogLevel::info:
            return "info";
        case LogLevel::warning:
            return "warning";
        case LogLevel::error:
            return "error";
    }
    return "info";
}

void append_escaped(std::string& line, std::string_view text, bool json) {
    char code[8];
    for (const unsigned char each : text) {
        if (each == '"' || each == '\\') {
            line += '\\';
            line += static_cast<char>(each);
        } else if (each < 0x20 || each == 0x7f) {
            std::snprintf(code, sizeof code, json ? "\\u%04x" : "\\x%02x", each);
            line += code;
        } else {
            line += static_cast<char>(each);
        }
    }
}

std::string utc_now() {
    const std::int64_t ms = wall_ms();
    const std::time_t seconds = static_cast<std::time_t>(ms / 1000);
    std::tm utc{};
    ::gmtime_r(&seconds, &utc);
    char text[40];
    const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    std::snprintf(text + size, sizeof text - size, ".%03dZ", static_cast<int>(ms % 1000));
    return text;
}

class Log {
  public:
    void open(LogOptions options) {
        const std::lock_guard lock(mutex_);
        options_ = std::move(options);
        file_.reset();
        reopen_at_ = {};
    }

    void write(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
        const std::lock_guard lock(mutex_);
        if (level < options_.level) return;
        const std::uint64_t held_back = admit(event, fields);
        if (held_back == kHold) return;
        put(render(level, event, fields, held_back));
    }

  private:
    static constexpr std::uint64_t kHold = ~std::uint64_t{0};

    /// kHold, or how many like it were held back before.
    std::uint64_t admit(std::string_view event, std::initializer_list<LogField> fields) {
        std::string key(event);
        for (const auto& [name, value] : fields) key.append("\n").append(value);
        const TimePoint now = Monotonic::now();
        if (repeats_.size() >= kMaxTexts && !repeats_.contains(key)) repeats_.clear();
        Repeats& seen = repeats_[std::move(key)];
        if (now - seen.since >= kRepeatWindow) {
            const std::uint64_t held_back = seen.held_back;
            seen = {now, 1, 0};
            return held_back;
        }
        if (seen.written < kLogRepeatsPerMinute) {
            ++seen.written;
            return 0;
        }
        ++seen.held_back;
        return kHold;
    }

    std::string render(LogLevel level, std::string_view event,
                       std::initializer_list<LogField> fields, std::uint64_t held_back) const {
        const std::string time = utc_now();
        std::string line;
        const auto add = [&](std::string_view name, std::string_view value) {
            if (options_.json) {
                line.append(", \"").append(name).append("\": \"");
            } else {
                line.append(" ").append(name).append("=\"");
            }
            append_escaped(line, value, options_.json);
            line += '"';
        };
        if (options_.json) {
            line = "{\"time\": \"" + time + "\", \"level\": \"" + level_name(level) + "\"";
            add("process", options_.process);
            add("event", event);
        } else {
            line = time + " " + level_name(level) + " [" + options_.process + "] ";
            line.append(event);
        }
        for (const auto& [name, value] : fields) {
            if (line.size() + value.size() > kMaxLineBytes) {
                const std::size_t room = kMaxLineBytes - std::min(line.size(), kMaxLineBytes);
                add(name, std::string_view(value).substr(0, room / 2));
                break;
            }
            add(name, value);
        }
        if (held_back > 0) add("repeats_left_out", std::to_string(held_back));
        if (lost_ > 0) add("lines_lost", std::to_string(lost_));
        line += options_.json ? "}\n" : "\n";
        return line;
    }

    void put(const std::string& line) {
        const int fd = descriptor();
        if (fd < 0 || ::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
            ++lost_;
            return;
        }
        lost_ = 0;
    }

    int descriptor() {
        if (options_.file.empty()) return STDERR_FILENO;
        struct stat named {};
        const bool there = ::stat(options_.file.c_str(), &named) == 0;
        if (file_) {
            struct stat open {};
            const bool same = there && ::fstat(file_.get(), &open) == 0 &&
                              open.st_ino == named.st_ino && open.st_dev == named.st_dev;
            if (same && static_cast<std::uint64_t>(named.st_size) < kLogRotateBytes) {
                return file_.get();
            }
            if (same) rotate();
            file_.reset();
        }
        const TimePoint now = Monotonic::now();
        if (now < reopen_at_) return -1;
        // O_NONBLOCK: a FIFO without a reader must not hold us; only a regular file is written.
        file_.reset(::open(options_.file.c_str(),
                           O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW,
                           0600));
        struct stat opened {};
        if (file_ && (::fstat(file_.get(), &opened) < 0 || !S_ISREG(opened.st_mode))) file_.reset();
        if (!file_) reopen_at_ = now + kReopenPause;
        return file_.get();
    }

    /// Whoever holds the lock on the full file renames it; the others find the name changed.
    void rotate() {
        if (::flock(file_.get(), LOCK_EX | LOCK_NB) < 0) return;
        struct stat open {
        }, named{};
        if (::fstat(file_.get(), &open) == 0 && ::stat(options_.file.c_str(), &named) == 0 &&
            open.st_ino == named.st_ino) {
            ::rename(options_.file.c_str(), (options_.file.string() + ".1").c_str());
        }
    }

    std::mutex mutex_;
    LogOptions options_;
    UniqueFd file_;
    TimePoint reopen_at_{};
    std::uint64_t lost_ = 0;
    std::unordered_map<std::string, Repeats> repeats_;
};

/// One per process, as the file it writes; never destroyed, for threads that end late.
Log& process_log() {
    static Log* log = new Log;
    return *log;
}

}  // namespace

void open_log(LogOptions options) {
    process_log().open(std::move(options));
}

void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
    process_log().write(level, event, fields);
}

}  // namespace shared
