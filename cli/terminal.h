// What a person sees: text made safe for a terminal, tables, and the progress line.
//
// Everything that may come from a host goes through `visible()` before it is printed, except the
// output of cells, which is the user's own. Knows nothing of the daemon.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace cli {

enum class Lines { escape, keep };

/// `text` with control characters (C0, DEL, C1) as \xNN, \n, \t and the like, and bytes that are
/// not UTF-8 as \xNN. `Lines::keep` lets newlines and tabs through, for text of several lines.
std::string visible(std::string_view text, Lines lines = Lines::escape);

/// Columns padded to their widest cell, two blanks between; the first row is the heading.
/// Cells are made visible here.
std::string table(const std::vector<std::vector<std::string>>& rows);

/// "3 s", "12 min", "5 h", "3 d".
std::string duration_text(std::int64_t milliseconds);

/// Writes all of `bytes` to standard output at once. False when the reader has gone.
bool write_output(std::string_view bytes);

/// One line on standard error for work that takes over a second, only when that is a terminal.
/// `text` is asked on a thread of this object, first after 1 s, then every 300 ms; what it gives
/// is shown with the seconds passed, an empty text shows nothing.
class Progress {
  public:
    explicit Progress(std::function<std::string()> text);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// Takes the line away for good; afterwards other text may be printed. Does not wait for
    /// `text`. Any thread.
    void end();

  private:
    void run();

    std::function<std::string()> text_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ended_ = false;
    bool shown_ = false;
    std::thread thread_;
};

}  // namespace cli
