// How the program ends, for scripts. The table that turns an Error into one of these is here too.
#pragma once

#include "shared/result.h"

namespace cli {

enum ExitCode : int {
    kOk = 0,
    kFailed = 1,        // something failed, or the cell raised
    kUsage = 2,         // the command line makes no sense
    kNoDaemon = 3,      // no daemon runs and none can be started
    kHostNotReady = 4,  // the host cannot be reached, needs a sign-in, or cannot run kernels
    kInterrupted = 130,
};

/// The code that fits an error; anything not named above is kFailed.
inline ExitCode exit_code(const shared::Error& error) {
    switch (error.code) {
        case shared::ErrorCode::unavailable:
            return kNoDaemon;
        case shared::ErrorCode::needs_auth:
        case shared::ErrorCode::unreachable:
        case shared::ErrorCode::unsupported:
            return kHostNotReady;
        case shared::ErrorCode::cancelled:
            return kInterrupted;
        default:
            return kFailed;
    }
}

}  // namespace cli
