// What is left of a process that died: $ALBEDO_HOME/blackbox/<utc>-<process>-<host>.txt.
//
// Cause, last words and flight recorder, for a person. Everything in it comes from the dead process
// and is cut and escaped. The newest kMaxBlackBoxes files are kept. A disk that refuses costs the
// file and a log line, nothing else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "shared/process_page.h"

namespace supervisor {

struct BlackBox {
    std::string process;
    std::string host;
    std::string cause;
    std::string last_words;
    std::vector<shared::FlightEvent> events;
    std::int64_t wall_ms = 0;
};

/// "20261201T041500.123Z-agent-user@box.txt"; what a file name should not hold becomes '_'.
std::string black_box_name(const BlackBox& box);
std::string black_box_text(const BlackBox& box);
/// Writes it into `folder` and removes the oldest. Never throws.
void write_black_box(const std::filesystem::path& folder, const BlackBox& box) noexcept;

}  // namespace supervisor
