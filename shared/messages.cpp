#include "shared/messages.h"

namespace shared {

const char* to_string(HostState state) {
    switch (state) {
        case HostState::unknown:
            return "unknown";
        case HostState::ready:
            return "ready";
        case HostState::needs_auth:
            return "needs_auth";
        case HostState::unreachable:
            return "unreachable";
        case HostState::unsupported:
            return "unsupported";
    }
    return "unknown";
}

const char* to_string(HostStep step) {
    switch (step) {
        case HostStep::none:
            return "";
        case HostStep::connecting:
            return "connecting";
        case HostStep::probing:
            return "probing";
        case HostStep::staging:
            return "staging";
        case HostStep::starting:
            return "starting";
    }
    return "";
}

const char* to_string(CloseReason reason) {
    switch (reason) {
        case CloseReason::dropped:
            return "dropped";
        case CloseReason::unreachable:
            return "unreachable";
        case CloseReason::needs_auth:
            return "needs_auth";
        case CloseReason::unsupported:
            return "unsupported";
        case CloseReason::no_folder:
            return "no_folder";
        case CloseReason::gone:
            return "gone";
        case CloseReason::elsewhere:
            return "elsewhere";
        case CloseReason::overflow:
            return "overflow";
        case CloseReason::failed:
            return "failed";
    }
    return "dropped";
}

}  // namespace shared
