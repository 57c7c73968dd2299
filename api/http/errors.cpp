#include "api/http/errors.h"

#include "api/http/json_codec.h"

namespace http {

using shared::Error;
using shared::ErrorCode;

namespace {
constexpr const char* kRetryAfterSeconds = "1";
}

int status_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::invalid:
            return 400;
        case ErrorCode::unauthorized:
            return 401;
        case ErrorCode::forbidden:
            return 403;
        case ErrorCode::not_found:
            return 404;
        case ErrorCode::conflict:
        case ErrorCode::cancelled:
            return 409;
        case ErrorCode::expired:
        case ErrorCode::gone:
            return 410;
        case ErrorCode::too_large:
            return 413;
        case ErrorCode::unsupported:
            return 422;
        case ErrorCode::protocol:
            return 502;
        case ErrorCode::needs_auth:
        case ErrorCode::unreachable:
        case ErrorCode::overloaded:
        case ErrorCode::unavailable:
            return 503;
        case ErrorCode::timed_out:
            return 504;
        case ErrorCode::storage:
            return 507;
        case ErrorCode::failed:
            return 500;
    }
    return 500;
}

Response error_response(int status, std::string_view code, std::string_view message) {
    auto response = json_response({{"error", message}, {"code", code}}, status);
    if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
    if (status == 503) response.headers.emplace_back("Retry-After", kRetryAfterSeconds);
    return response;
}

Response error_response(const Error& error, int status) {
    const char* code = error.code == ErrorCode::unauthorized ? "authentication_required"
                                                             : shared::to_string(error.code);
    auto response = error_response(status, code, error.message);
    if (!error.host.empty())
        response.body = dump_json({{"error", error.message}, {"code", code}, {"host", error.host}});
    return response;
}

Response error_response(const Error& error) {
    return error_response(error, status_of(error.code));
}

}  // namespace http
