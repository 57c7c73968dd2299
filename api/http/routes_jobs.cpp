#include "api/http/routes_jobs.h"

#include <charconv>

#include "api/http/errors.h"
#include "api/http/json_codec.h"
#include "api/http/route_world.h"

namespace http {

using shared::Error;
using shared::ErrorCode;

void add_job_routes(Server& server, sessions::Jobs& jobs) {
    server.route("GET", "/sessions/:id/jobs", [&jobs](const Request& request) {
        auto session = session_of(request);
        if (!session) return error_response(session.error());
        auto rows = jobs.list(*session, request_deadline());
        if (!rows) return error_response(rows.error());
        return json_response(*rows);
    });
    server.route("DELETE", "/sessions/:id/jobs/:job", [&jobs](const Request& request) {
        auto session = session_of(request);
        if (!session) return error_response(session.error());
        const std::string text = request.parameter("job");
        std::int64_t number = 0;
        const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
        if (failed != std::errc() || stop != text.data() + text.size() || number < 1)
            return error_response({ErrorCode::not_found, "no such job in this session", {}});
        auto stopped = jobs.stop(*session, number, request_deadline());
        if (!stopped) return error_response(stopped.error());
        return json_response({{"id", number}, {"stopped", *stopped}});
    });
}

}  // namespace http
