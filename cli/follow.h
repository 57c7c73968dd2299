// Following one cell: its output as it comes, its result at the end, Ctrl-C in between.
//
// A broken stream is opened again at the byte where it broke, also when the daemon was killed
// meanwhile (it is started again); what was printed once is not printed twice. Ending this
// program never ends the cell.
#pragma once

#include <string>

#include "cli/client.h"
#include "cli/sessions.h"

namespace cli {

inline constexpr shared::Milliseconds kFollowPatience{120'000};  // without any sign of the daemon

struct Cell {
    Session session;
    std::string id;
};

/// Blocks until the cell ends. Prints its output to standard output as it comes, then its value,
/// its traceback to standard error; with `json` only the result, as one object. Returns the exit
/// code: kOk, kFailed when it raised or was lost, kInterrupted. Ctrl-C asks the cell to stop, a
/// second one ends the program and leaves the cell running.
shared::Result<int> follow_cell(Client& client, const Cell& cell, bool json);

/// Prints `result` as above; `line_open` when the output so far did not end in a newline.
/// Returns the exit code.
int print_result(const Json& result, bool line_open);

}  // namespace cli
