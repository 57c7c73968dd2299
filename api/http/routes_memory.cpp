#include "api/http/routes_memory.h"

#include "api/http/errors.h"
#include "api/http/json_codec.h"

namespace http {
namespace {

using shared::Error;
using shared::ErrorCode;
using shared::Result;

/// The canonical text of an absolute workspace.
Result<std::string> canonical(const std::optional<std::string>& text) {
    if (!text) return Error{ErrorCode::invalid, "workspace is missing", {}};
    auto location = workspaces::parse_location(*text);
    if (!location) return std::move(location).error();
    if (location->is_home_relative) {
        return Error{ErrorCode::invalid, *text + " must be absolute", {}};
    }
    return location->text();
}

}  // namespace

void add_memory_routes(Server& server, memory::MemoryCalls& memory, workspaces::Links& links) {
    server.route("GET", "/memory", [&memory](const Request& request) {
        auto workspace = canonical(request.query("workspace"));
        if (!workspace) return error_response(workspace.error());
        auto text = memory.read(*workspace);
        if (!text) return error_response(text.error());
        return json_response({{"workspace", *workspace}, {"text", *text}});
    });
    server.route("POST", "/memory", [&memory](const Request& request) {
        Fields fields(request.body);
        const std::string text = fields.text("text");
        auto workspace = canonical(fields.text("workspace"));
        if (auto read = fields.finish(); !read) return error_response(read.error());
        if (!workspace) return error_response(workspace.error());
        if (auto added = memory.append(*workspace, text); !added) {
            return error_response(added.error());
        }
        return json_response({{"workspace", *workspace}});
    });
    server.route("GET", "/links", [&links](const Request& request) {
        auto workspace = canonical(request.query("workspace"));
        if (!workspace) return error_response(workspace.error());
        auto page = links.page(*workspace);
        if (!page) return error_response(page.error());
        return json_response(*page);
    });
}

}  // namespace http
