// Who may talk to the daemon: pages of other sites may not (DNS rebinding makes them look local),
// and nobody without the token. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "api/http/request_head.h"
#include "shared/result.h"

namespace http {

/// Nothing when the request may go on. `forbidden` unless there is exactly one Host and it is
/// 127.0.0.1, localhost or [::1], any port, and at most one Origin, of such a host; judged without
/// a look at the token, so that it tells nothing about it. Then `unauthorized` unless the one
/// Authorization is `Bearer` and the token; compared in constant time.
std::optional<shared::Error> refuse_access(const RequestHead& head, std::string_view token);

}  // namespace http
