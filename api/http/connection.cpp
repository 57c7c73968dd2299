#include "api/http/connection.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "api/http/access.h"
#include "api/http/errors.h"
#include "api/http/request_body.h"
#include "shared/log.h"

namespace http {

using shared::Error;
using shared::ErrorCode;
using shared::Milliseconds;
using shared::Monotonic;
using shared::TimePoint;

namespace {

constexpr Milliseconds kTurnAwayDeadline{1'000};

/// Nothing when `type` is what a body of ours must be.
std::optional<Response> refuse_media_type(const RequestHead& head) {
    if (head.find("content-encoding"))
        return error_response(415, "unsupported_media_type", "compressed bodies are not taken");
    const std::string* type = head.find("content-type");
    if (!type) return error_response({ErrorCode::invalid, "Content-Type is missing", {}});
    constexpr std::string_view kJson = "application/json";
    auto media = type->substr(0, type->find_first_of("; \t"));
    std::transform(media.begin(), media.end(), media.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
    if (media == kJson) return std::nullopt;
    return error_response(415, "unsupported_media_type", "the body must be application/json");
}

Response too_large(std::size_t limit) {
    return error_response({ErrorCode::too_large,
                           "the body may have " + std::to_string(limit) + " bytes at most",
                           {}});
}

}  // namespace

const std::string& Request::parameter(std::string_view name) const {
    const auto found = parameters.find(name);
    ALBEDO_CHECK(found != parameters.end());
    return found->second;
}

std::optional<std::string> Request::query(const std::string& name) const {
    const auto found = queries.lower_bound(name);
    if (found == queries.end() || found->first != name) return std::nullopt;
    return found->second;
}

std::optional<std::string> Request::header(std::string_view lower_name) const {
    for (const auto& [name, value] : headers)
        if (name == lower_name) return value;
    return std::nullopt;
}

Connection::Connection(const ServerContext& context, ClientSocket& socket)
    : context_(context), socket_(socket), writer_(socket) {}

void Connection::serve() {
    TimePoint first_byte_by = Monotonic::now() + context_.options.head_deadline;
    while (true) {
        RequestHead head;
        if (read_head(first_byte_by, head) != Read::head || !serve_one(head)) return;
        first_byte_by = Monotonic::now() + context_.options.idle_deadline;
    }
}

void Connection::turn_away() {
    RequestHead head;
    if (read_head(Monotonic::now() + kTurnAwayDeadline, head) == Read::head)
        (void)refuse(head,
                     error_response(
                         {ErrorCode::overloaded, "the daemon has too many clients just now", {}}));
}

Connection::Read Connection::read_head(TimePoint first_byte_by, RequestHead& head) {
    std::size_t searched = 0;
    TimePoint deadline = first_byte_by;
    bool begun = false;
    while (true) {
        // Empty lines before a request are allowed, and count as nothing.
        while (!begun && socket_.input().substr(0, 2) == "\r\n") socket_.take(2);
        if (!begun && !socket_.input().empty() && socket_.input() != "\r") {
            begun = true;
            deadline = Monotonic::now() + context_.options.head_deadline;
        }
        if (begun) {
            const auto input = socket_.input();
            const auto end = find_head_end(input, searched);
            const bool too_long = std::min(end, input.size()) > kMaxHeadBytes;
            if (too_long || (end == std::string_view::npos && input.size() == kMaxHeadBytes)) {
                refuse(head, error_response(431, "headers_too_large",
                                            "line and headers of the request are too long"));
                return Read::refused;
            }
            if (end != std::string_view::npos) {
                auto parsed = parse_head(input.substr(0, end));
                socket_.take(end);
                if (!parsed) {
                    const int status = parsed.error().code == ErrorCode::too_large ? 431 : 400;
                    refuse(head, error_response(parsed.error(), status));
                    return Read::refused;
                }
                head = std::move(*parsed);
                return Read::head;
            }
        }
        switch (socket_.fill(deadline, kMaxHeadBytes - socket_.input().size())) {
            case ClientSocket::Fill::more:
                break;
            case ClientSocket::Fill::timed_out:
                if (begun)
                    refuse(head,
                           error_response(408, "timed_out", "the request did not come in time"));
                return Read::nothing;
            case ClientSocket::Fill::ended:
                return Read::nothing;
        }
    }
}

/// The answer to a request that may not go on; its body was not read.
bool Connection::refuse(const RequestHead& head, const Response& response) {
    (void)writer_.write(head, true, [&] { return response; });
    socket_.linger();
    return false;
}

std::optional<Response> Connection::judge(const RequestHead& head, Router::Match& match,
                                          BodyFraming& framing) const {
    if (auto refused = refuse_access(head, context_.options.token)) return error_response(*refused);
    if (context_.draining)
        return error_response({ErrorCode::unavailable, "the daemon is stopping", {}});
    match = context_.router.find(head.method, head.path);
    if (!match.route && match.allowed.empty())
        return error_response({ErrorCode::not_found, "there is no such route", {}});
    if (!match.route) {
        auto response =
            error_response(405, "method_not_allowed", "the route is there, but not by this method");
        response.headers.emplace_back("Allow", match.allowed);
        return response;
    }
    auto read = body_framing(head);
    if (!read) return error_response(read.error());
    framing = *read;
    const std::size_t limit = match.route->options.body_limit;
    if (framing.length > limit) return too_large(limit);
    if (framing.any())
        if (auto refused = refuse_media_type(head)) return refused;
    return std::nullopt;
}

Response Connection::handle(const Route& route, const Request& request) const {
    const TimePoint begun = Monotonic::now();
    Response response = handled(route, request);
    if (context_.options.on_response)
        context_.options.on_response(route.method, route.pattern, response.status,
                                     Monotonic::now() - begun);
    return response;
}

Response Connection::handled(const Route& route, const Request& request) const {
    try {
        return route.handler(request);
    } catch (const std::exception& fault) {
        shared::log_error(
            "a request failed",
            {{"method", route.method}, {"route", route.pattern}, {"what", fault.what()}});
        return error_response({ErrorCode::failed, "the daemon failed at this request", {}});
    }
}

bool Connection::serve_one(RequestHead& head) {
    if (context_.options.on_request) context_.options.on_request();
    Router::Match match;
    BodyFraming framing;
    if (auto refused = judge(head, match, framing)) {
        if (context_.options.on_response)
            context_.options.on_response("-", "-", refused->status, {});
        // Only what was read to its end leaves the connection in step, and only for one of ours.
        const bool keep = refused->status == 404 || refused->status == 405;
        const auto body = body_framing(head);
        if (!keep || !body || body->any() || head.wants_close()) return refuse(head, *refused);
        return writer_.write(head, false, [&] { return *refused; });
    }
    Request request;
    if (framing.any()) {
        const std::string* expects = head.find("expect");
        if (expects && *expects == "100-continue" && socket_.input().empty()) {
            if (!socket_.write("HTTP/1.1 100 Continue\r\n\r\n") || !socket_.flush()) return false;
        }
        const std::size_t limit = match.route->options.body_limit;
        auto body =
            read_body(socket_, framing, limit, Monotonic::now() + context_.options.body_deadline);
        if (!body) {
            switch (body.error().code) {
                case ErrorCode::cancelled:
                    return false;
                case ErrorCode::timed_out:
                    return refuse(head, error_response(body.error(), 408));
                case ErrorCode::too_large:
                    return refuse(head, too_large(limit));
                default:
                    return refuse(head, error_response(body.error()));
            }
        }
        request.body = std::move(*body);
    }
    auto queries = parse_query(head.query);
    const bool close = head.wants_close();
    const bool written = writer_.write(head, close, [&]() -> Response {
        if (!queries) return error_response(queries.error());
        request.method = head.method;
        request.path = head.path;
        request.parameters = std::move(match.parameters);
        request.queries = std::move(*queries);
        request.headers = std::move(head.headers);  // a stream keeps them for long
        request.client = &socket_;
        return handle(*match.route, request);
    });
    if (written && !close) return true;
    if (written) socket_.linger();
    return false;
}

}  // namespace http
