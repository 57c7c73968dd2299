#include "api/http/routes_fs.h"

#include "api/http/errors.h"
#include "api/http/json_codec.h"

namespace http {
namespace {

using shared::Error;
using shared::ErrorCode;
using shared::Monotonic;

bool is_the_hosts_fault(ErrorCode code) {
    return code == ErrorCode::unreachable || code == ErrorCode::needs_auth ||
           code == ErrorCode::unsupported;
}

Response refusal(const workspaces::LookError& failure) {
    if (!is_the_hosts_fault(failure.error.code)) return error_response(failure.error);
    Json body{{"error", failure.error.message},
              {"code", shared::to_string(failure.error.code)},
              {"host", failure.error.host},
              {"state", shared::to_string(failure.error.code)}};
    if (!failure.host.control_path.empty()) body["control_path"] = failure.host.control_path;
    Response response = json_response(body, 503);
    response.headers.emplace_back("Retry-After", "5");
    return response;
}

Response look(workspaces::Folders& folders, const std::string& op, const Request& request) {
    const auto path = request.query("path");
    if (!path) return error_response(Error{ErrorCode::invalid, "path is missing", {}});
    auto location = workspaces::parse_location(*path);
    if (!location) return error_response(location.error());
    auto answer = folders.ask(op, *location, Monotonic::now() + workspaces::kBrowseDeadline);
    if (const auto* failure = std::get_if<workspaces::LookError>(&answer)) return refusal(*failure);
    return json_response(std::get<Json>(answer));
}

}  // namespace

void add_fs_routes(Server& server, workspaces::Folders& folders) {
    for (const char* op : {"list", "repo", "preview"}) {
        server.route("GET", std::string("/fs/") + op,
                     [&folders, op](const Request& request) { return look(folders, op, request); });
    }
}

}  // namespace http
