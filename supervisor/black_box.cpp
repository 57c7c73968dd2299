#include "supervisor/black_box.h"

#include <algorithm>
#include <cctype>
#include <ctime>
#include <exception>
#include <string_view>

#include "shared/home.h"
#include "shared/log.h"
#include "supervisor/timing.h"

namespace supervisor {
namespace {

constexpr std::size_t kMaxNameHostBytes = 64;

// Milliseconds of UTC, sortable as text: without ':' for file names.
std::string utc(std::int64_t wall_ms) {
    const std::time_t seconds = wall_ms / 1000;
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char text[40];
    const auto length = std::strftime(text, sizeof text, "%Y%m%dT%H%M%S", &parts);
    const std::string ms = std::to_string(1000 + wall_ms % 1000);
    return std::string(text, length) + "." + ms.substr(1) + "Z";
}

// Lines stay lines; other control characters could steer the terminal of whoever reads this.
std::string printable(std::string_view text) {
    std::string result;
    for (const char c : text) {
        const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
        result += control && c != '\n' && c != '\t' ? '?' : c;
    }
    return result;
}

}  // namespace

std::string black_box_name(const BlackBox& box) {
    std::string name = utc(box.wall_ms) + "-" + box.process;
    if (!box.host.empty()) name += "-" + box.host.substr(0, kMaxNameHostBytes);
    for (char& c : name) {
        const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ||
                           c == '@' || c == '_';
        if (!plain) c = '_';
    }
    return name + ".txt";
}

std::string black_box_text(const BlackBox& box) {
    std::string text = "process: " + box.process + "\n";
    if (!box.host.empty()) text += "host: " + printable(box.host) + "\n";
    text += "died: " + utc(box.wall_ms) + "\ncause: " + printable(box.cause) + "\n";
    text += "\nlast words (stderr):\n" + printable(box.last_words);
    if (!box.last_words.empty() && box.last_words.back() != '\n') text += "\n";
    text += "\nflight recorder, oldest first:\n";
    for (const auto& event : box.events) {
        text += utc(event.wall_ms) + "  " + printable(event.text) + "\n";
    }
    return text;
}

void write_black_box(const std::filesystem::path& folder, const BlackBox& box) noexcept try {
    namespace fs = std::filesystem;
    fs::create_directories(folder);
    const auto written =
        shared::write_private_file(folder / black_box_name(box), black_box_text(box));
    if (!written) {
        shared::log_warning("no black box written", {{"error", written.error().message}});
        return;
    }
    std::vector<fs::path> boxes;
    for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.path().extension() == ".txt") boxes.push_back(entry.path());
    }
    if (boxes.size() <= kMaxBlackBoxes) return;
    std::sort(boxes.begin(), boxes.end());  // names begin with the time
    boxes.resize(boxes.size() - kMaxBlackBoxes);
    for (const auto& old : boxes) fs::remove(old);
} catch (const std::exception& fault) {
    shared::log_warning("no black box written", {{"error", fault.what()}});
}

}  // namespace supervisor
