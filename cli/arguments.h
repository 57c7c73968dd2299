// The command line, and the only file that knows CLI11 here: words in, one command run.
#pragma once

#include "shared/result.h"

namespace cli {

/// Reads the command line and runs the command it names. Prints help, and errors of the command
/// line itself (kUsage). `json` is set as soon as it is known, for whoever prints an Error.
shared::Result<int> run_command_line(int argc, char** argv, bool& json);

}  // namespace cli
