// Reads the body of one request, counted in bytes really read.
#pragma once

#include <cstddef>
#include <string>

#include "api/http/client_socket.h"
#include "api/http/request_head.h"
#include "shared/clock.h"
#include "shared/result.h"

namespace http {

/// Takes the whole body from `socket`. Errors: too_large (over `limit`; the rest was not read),
/// timed_out, invalid (a broken chunk), cancelled (the client is gone, or the server stops).
shared::Result<std::string> read_body(ClientSocket& socket, const BodyFraming& framing,
                                      std::size_t limit, shared::TimePoint deadline);

}  // namespace http
