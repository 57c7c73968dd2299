// One POST to a provider over HTTP or HTTPS, its answer given out as it comes. Owns cpp-httplib's
// client; knows nothing of protocols. Logs nothing, so no key can reach a log.
//
// Certificates are checked against the system's. Redirects are not followed: a key would go with
// them. The request runs on a thread of its own, because names are resolved without a deadline of
// ours: on cancel `post` returns at once, the socket is shut down, and the thread ends by itself
// within the deadlines below without calling anybody.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/providers/cancel_token.h"
#include "api/providers/endpoint.h"
#include "api/providers/model_event.h"
#include "shared/clock.h"

namespace providers {

inline constexpr std::chrono::seconds kConnectDeadline{10};
inline constexpr std::chrono::seconds kWriteDeadline{30};  // the peer takes nothing for so long
inline constexpr std::size_t kMaxAnswerBytes = 64 << 20;   // a whole streamed answer
inline constexpr std::size_t kMaxErrorBodyBytes = 64 << 10;

struct HttpRequest {
    Url url;  // its path is the whole path here
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body;
    std::optional<Proxy> proxy;
    std::chrono::seconds read_deadline{120};  // silence of the peer
};

/// The answer's end. `status` 0: there was none, and `problem` says why.
struct HttpAnswer {
    int status = 0;
    std::string retry_after;  // the header's value
    std::string error_body;   // of a status other than 200, at most kMaxErrorBodyBytes
    std::string problem;      // for a person; empty if the answer is whole
    bool cancelled = false;
};

/// Takes a piece of a 200's body; false ends the request. Runs on another thread while `post`
/// waits, one call at a time, and never after `post` returned.
using BodyReceiver = std::function<bool(std::string_view)>;

/// Blocks until the answer's end, a failure, or cancel.
HttpAnswer post(HttpRequest request, const BodyReceiver& receiver, CancelToken& cancel);

}  // namespace providers
