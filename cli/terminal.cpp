#include "cli/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace cli {
namespace {

constexpr auto kProgressAfter = std::chrono::seconds(1);
constexpr auto kProgressEvery = std::chrono::milliseconds(300);

/// Length of the UTF-8 character at the start of `text` that may be shown; 0 if there is none.
/// Overlong forms, surrogates and C1 controls (U+0080 to U+009F) are not.
std::size_t printable_length(std::string_view text) {
    auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
    const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
    if (length == 0 || first > 0xf4 || text.size() < length) return 0;
    std::uint32_t point = first & (0x7f >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return 0;
        point = point << 6 | (byte(i) & 0x3f);
    }
    constexpr std::uint32_t kSmallest[] = {0, 0, 0xa0, 0x800, 0x10000};
    const bool surrogate = point >= 0xd800 && point < 0xe000;
    // U+202A-E and U+2066-9 reorder what stands around them on a terminal.
    const bool reorders =
        (point >= 0x202a && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
    return point < kSmallest[length] || point > 0x10ffff || surrogate || reorders ? 0 : length;
}

std::size_t columns(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    }));
}

}  // namespace

std::string visible(std::string_view text, Lines lines) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        if (const std::size_t length = printable_length(text)) {
            out.append(text.substr(0, length));
            text.remove_prefix(length);
            continue;
        }
        const char c = text.front();
        text.remove_prefix(1);
        if (lines == Lines::keep && (c == '\n' || c == '\t')) {
            out += c;
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '\t') {
            out += "\\t";
        } else if (c == '\r') {
            out += "\\r";
        } else {
            char escaped[5];
            std::snprintf(escaped, sizeof escaped, "\\x%02x", static_cast<unsigned char>(c));
            out += escaped;
        }
    }
    return out;
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
    std::vector<std::vector<std::string>> shown;
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
        auto& cells = shown.emplace_back();
        for (std::size_t i = 0; i < row.size(); ++i) {
            cells.push_back(visible(row[i]));
            if (widths.size() <= i) widths.push_back(0);
            widths[i] = std::max(widths[i], columns(cells[i]));
        }
    }
    std::string out;
    for (const auto& row : shown) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            line += row[i] + std::string(widths[i] - columns(row[i]) + 2, ' ');
        }
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
    }
    return out;
}

std::string duration_text(std::int64_t milliseconds) {
    const std::int64_t seconds = std::max<std::int64_t>(milliseconds, 0) / 1000;
    if (seconds < 120) return std::to_string(seconds) + " s";
    if (seconds < 2 * 3600) return std::to_string(seconds / 60) + " min";
    if (seconds < 48 * 3600) return std::to_string(seconds / 3600) + " h";
    return std::to_string(seconds / 86400) + " d";
}

bool write_output(std::string_view bytes) {
    return std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size() &&
           std::fflush(stdout) == 0;
}

Progress::Progress(std::function<std::string()> text) : text_(std::move(text)) {
    if (isatty(STDERR_FILENO)) thread_ = std::thread([this] { run(); });
}

Progress::~Progress() {
    end();
    if (thread_.joinable()) thread_.join();
}

void Progress::end() {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
    if (shown_) std::fputs("\r\033[K", stderr);
    changed_.notify_all();
}

void Progress::run() {
    const auto began = std::chrono::steady_clock::now();
    std::unique_lock lock(mutex_);
    auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(kProgressAfter);
    while (!changed_.wait_for(lock, wait, [this] { return ended_; })) {
        lock.unlock();
        const std::string text = text_();
        lock.lock();
        if (ended_) return;
        const auto passed = std::chrono::duration_cast<std::chrono::seconds>(
            std::chrono::steady_clock::now() - began);
        if (text.empty()) {
            if (shown_) std::fputs("\r\033[K", stderr);
        } else {
            std::fprintf(stderr, "\r\033[K%s (%lld s)", visible(text).c_str(),
                         static_cast<long long>(passed.count()));
        }
        shown_ = !text.empty();
        wait = kProgressEvery;
    }
}

}  // namespace cli
