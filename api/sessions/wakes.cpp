#include "api/sessions/wakes.h"

#include <cstdio>

#include "api/sessions/kernel_json.h"

namespace sessions {

using nlohmann::json;

namespace {
constexpr std::size_t kCommandCharacters = 200;
constexpr std::size_t kEndBytes = 400;
constexpr std::size_t kOutputBytes = 4'000;

bool inside_character(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

/// The first `characters` of the text, in one line.
std::string start_of(const std::string& text, std::size_t characters) {
    std::string line;
    for (const char byte : text) {
        if (!inside_character(byte) && characters-- == 0) return line + "...";
        line += static_cast<unsigned char>(byte) < 0x20 ? ' ' : byte;
    }
    return line;
}

std::string end_of(const std::string& text, std::size_t bytes) {
    if (text.size() <= bytes) return text;
    std::size_t from = text.size() - bytes;
    while (from < text.size() && inside_character(text[from])) ++from;
    return "[...]" + text.substr(from);
}

std::string seconds(std::int64_t ms) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ms) / 1000);
    return text;
}
}  // namespace

std::string wake_key(const std::string& run_id, const json& job) {
    // A session may come to another host, where numbers begin again.
    const std::string whose = flag_of(job, "kept")
                                  ? "kept " + std::to_string(number_of(job, "started_at"))
                                  : run_id;
    return whose + " " + std::to_string(number_of(job, "job"));
}

std::string wake_key(const shared::CellId& cell) {
    return "cell " + cell.text();
}

std::string wake_line(const json& job) {
    const std::string id = std::to_string(number_of(job, "job"));
    return "job " + id + " ended: " + start_of(text_of(job, "end"), kEndBytes) + ", after " +
           seconds(number_of(job, "ms")) + ": " +
           start_of(text_of(job, "command"), kCommandCharacters) + "\n  read it: run.job(" + id +
           ").tail()";
}

std::string wake_line(const store::CellRow& cell) {
    std::string line = "cell " + cell.id.text() + ", which went on in the background, ended: " +
                       store::to_string(cell.status) + ", after " + seconds(cell.ms) + ": " +
                       start_of(cell.code.value_or(""), kCommandCharacters);
    if (!cell.value.empty()) line += "\n  value: " + end_of(cell.value, kOutputBytes);
    if (const auto error = json::parse(cell.error, nullptr, false); error.is_object())
        line += "\n  error: " + text_of(error, "name") + ": " +
                end_of(text_of(error, "message"), kEndBytes);
    if (!cell.output.empty()) line += "\n  output: " + end_of(cell.output, kOutputBytes);
    return line;
}

std::string wake_prompt(const std::vector<store::WakeRow>& rows) {
    std::string text = "[From albedo, not from the user] What you started has ended meanwhile:";
    for (const auto& row : rows) text += "\n- " + row.text;
    return text;
}

}  // namespace sessions
