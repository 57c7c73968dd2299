// The one table from failures to HTTP: every error of the daemon is
// {"error": "what happened", "code": "kind"} with a status, and `host` when it is about one.
#pragma once

#include <string>
#include <string_view>

#include "api/http/server.h"
#include "shared/result.h"

namespace http {

/// 400 invalid, 401 unauthorized, 403 forbidden, 404 not_found, 409 conflict and cancelled, 410
/// expired and gone, 413 too_large, 422 unsupported, 502 protocol, 503 needs_auth, unreachable,
/// overloaded and unavailable, 504 timed_out, 507 storage, 500 failed.
int status_of(shared::ErrorCode code);

/// The error as a response; 503 carries `Retry-After`, 401 `WWW-Authenticate`.
Response error_response(const shared::Error& error);
/// The same with a status of the route's own choice.
Response error_response(const shared::Error& error, int status);
/// For what no ErrorCode names: 405 "method_not_allowed", 415 "unsupported_media_type".
Response error_response(int status, std::string_view code, std::string_view message);

}  // namespace http
