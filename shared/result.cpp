#include "shared/result.h"

#include <cstdio>
#include <cstdlib>

namespace shared {

const char* to_string(ErrorCode code) {
    switch (code) {
        case ErrorCode::invalid:
            return "invalid";
        case ErrorCode::unauthorized:
            return "unauthorized";
        case ErrorCode::forbidden:
            return "forbidden";
        case ErrorCode::not_found:
            return "not_found";
        case ErrorCode::conflict:
            return "conflict";
        case ErrorCode::expired:
            return "expired";
        case ErrorCode::too_large:
            return "too_large";
        case ErrorCode::unsupported:
            return "unsupported";
        case ErrorCode::needs_auth:
            return "needs_auth";
        case ErrorCode::unreachable:
            return "unreachable";
        case ErrorCode::gone:
            return "gone";
        case ErrorCode::overloaded:
            return "overloaded";
        case ErrorCode::unavailable:
            return "unavailable";
        case ErrorCode::timed_out:
            return "timed_out";
        case ErrorCode::cancelled:
            return "cancelled";
        case ErrorCode::protocol:
            return "protocol";
        case ErrorCode::storage:
            return "storage";
        case ErrorCode::failed:
            return "failed";
    }
    return "failed";
}

void check_failed(const char* condition, const char* file, int line) {
    std::fprintf(stderr, "albedo: bug: %s at %s:%d\n", condition, file, line);
    std::abort();
}

}  // namespace shared
