// One line per event in $ALBEDO_HOME/daemon.log, written by every process of the daemon.
//
// A line is one write(2) to a file opened for appending, so lines of several processes never mix.
// The file is rotated to daemon.log.1 at kLogRotateBytes by whichever process gets there first. A
// write that fails (disk full, file replaced) is counted, never waited for; the count is logged
// when writing works again. The same text is not logged more than kLogRepeatsPerMinute times a
// minute. Never log a secret, an environment or a prompt's text. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace shared {

inline constexpr std::uint64_t kLogRotateBytes = 8 << 20;
inline constexpr int kLogRepeatsPerMinute = 6;

enum class LogLevel { debug, info, warning, error };

struct LogOptions {
    std::filesystem::path file;  // empty: standard error
    std::string process;         // "supervisor", "api", "agent build-box"
    LogLevel level = LogLevel::info;
    bool json = false;  // one JSON object a line instead of text
};

/// To be called once, by main, before anything logs; without it, lines go to standard error.
void open_log(LogOptions options);

using LogField = std::pair<std::string_view, std::string>;

/// `event` is a short constant text; what varies goes into `fields`. Control characters are
/// escaped.
void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

inline void log_info(std::string_view event, std::initializer_list<LogField> fields = {}) {
    log(LogLevel::info, event, fields);
}
inline void log_warning(std::string_view event, std::initializer_list<LogField> fields = {}) {
    log(LogLevel::warning, event, fields);
}
inline void log_error(std::string_view event, std::initializer_list<LogField> fields = {}) {
    log(LogLevel::error, event, fields);
}

}  // namespace shared
