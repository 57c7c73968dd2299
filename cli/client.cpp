#include "cli/client.h"

#include <httplib.h>

#include <optional>
#include <thread>

#include "cli/json_fields.h"

namespace cli {
namespace {

using shared::Error;
using shared::ErrorCode;
using shared::Milliseconds;

constexpr Milliseconds kConnectTimeout{2'000};
constexpr Milliseconds kRetryPause{50};
constexpr Milliseconds kStreamSilence{30'000};  // the daemon sends a sign of life every 5 s

ErrorCode code_of_status(int status) {
    switch (status) {
        case 400:
            return ErrorCode::invalid;
        case 401:
            return ErrorCode::unauthorized;
        case 403:
            return ErrorCode::forbidden;
        case 404:
            return ErrorCode::not_found;
        case 409:
            return ErrorCode::conflict;
        case 410:
            return ErrorCode::gone;
        case 413:
            return ErrorCode::too_large;
        case 503:
            return ErrorCode::overloaded;
        case 504:
            return ErrorCode::timed_out;
        default:
            return ErrorCode::failed;
    }
}

std::optional<ErrorCode> code_of_state(const std::string& state) {
    if (state == "needs_auth") return ErrorCode::needs_auth;
    if (state == "unreachable") return ErrorCode::unreachable;
    if (state == "unsupported") return ErrorCode::unsupported;
    return std::nullopt;
}

/// 401: perhaps the port of a dying daemon. 503 `unavailable`: a part of the daemon is just being
/// started again, or the daemon is on its way out and another follows. Nothing was done.
bool means_try_again(const httplib::Response& answer) {
    if (answer.status == 401) return true;
    if (answer.status != 503) return false;
    const Json body = Json::parse(answer.body, nullptr, false);
    return body.is_object() && text_at(body, "code") == shared::to_string(ErrorCode::unavailable);
}

}  // namespace

std::string path_segment(std::string_view text) {
    constexpr char kHex[] = "0123456789ABCDEF";
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool plain = (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
        if (plain || (byte >= '0' && byte <= '9') || (c != '\0' && std::strchr("-._~", c))) {
            out += c;
        } else {
            out += {'%', kHex[byte >> 4], kHex[byte & 15]};
        }
    }
    return out;
}

Error error_of_answer(int status, const std::string& body) {
    const Json answer = Json::parse(body, nullptr, false);
    Error error{code_of_status(status), "the daemon answered " + std::to_string(status), ""};
    if (!answer.is_object()) return error;
    if (auto words = text_at(answer, "error"); !words.empty()) error.message = words;
    error.host = text_at(answer, "host");
    for (const char* key : {"state", "code"}) {
        if (auto code = code_of_state(text_at(answer, key))) error.code = *code;
    }
    return error;
}

struct Client::Connection {
    explicit Connection(const DaemonAddress& address) : http("127.0.0.1", address.port) {
        http.set_tcp_nodelay(true);
        http.set_keep_alive(true);
        http.set_connection_timeout(kConnectTimeout);
        http.set_default_headers({{"Authorization", "Bearer " + address.token}});
    }
    httplib::Client http;
};

Client::Client(std::filesystem::path home) : home_(std::move(home)) {}
Client::~Client() = default;

shared::Result<FoundDaemon> Client::connect() {
    auto found = ensure_daemon(home_);
    if (found) connection_ = std::make_unique<Connection>(found->address);
    return found;
}

shared::Result<Client::Connection*> Client::connection() {
    if (!connection_) {
        if (auto found = connect(); !found) return found.error();
    }
    return connection_.get();
}

shared::Result<Json> Client::get(const std::string& path, Milliseconds timeout) {
    return request("GET", path, "", Repeat::freely, timeout);
}

shared::Result<Json> Client::post(const std::string& path, const Json& body, Repeat repeat,
                                  Milliseconds timeout) {
    return request("POST", path, body.dump(-1, ' ', false, Json::error_handler_t::replace), repeat,
                   timeout);
}

shared::Result<Json> Client::remove(const std::string& path) {
    return request("DELETE", path, "", Repeat::only_unsent, kRequestTimeout);
}

shared::Result<Json> Client::request(const char* method, const std::string& path,
                                     const std::string& body, Repeat repeat, Milliseconds timeout) {
    const auto give_up = shared::Monotonic::now() + kRetryPatience;
    while (true) {
        const auto connected = connection();
        if (!connected) return connected.error();
        auto& http = (*connected)->http;
        http.set_read_timeout(timeout);

        httplib::Request request;
        request.method = method;
        request.path = path;
        request.body = body;
        if (!body.empty()) request.headers.emplace("Content-Type", "application/json");
        const auto began = shared::Monotonic::now();
        const auto answer = http.send(request);
        if (answer && answer->status < 400) {
            Json value = Json::parse(answer->body, nullptr, false);
            if (value.is_discarded() && !answer->body.empty()) {
                return Error{ErrorCode::protocol, "the daemon's answer is no JSON", ""};
            }
            return value;
        }
        if (answer && !means_try_again(*answer)) {
            return error_of_answer(answer->status, answer->body);
        }

        // A refused connection never reached a daemon, and these answers say that nothing was done.
        const bool unsent = answer || answer.error() == httplib::Error::Connection;
        const bool slow = !unsent && shared::Monotonic::now() - began >= timeout;
        connection_.reset();
        if (slow) {
            return Error{ErrorCode::timed_out, "the daemon did not answer " + path + " in time",
                         ""};
        }
        if ((!unsent && repeat == Repeat::only_unsent) || shared::Monotonic::now() >= give_up) {
            if (answer) return error_of_answer(answer->status, answer->body);
            return Error{
                ErrorCode::unavailable,
                "the connection to the daemon broke (" + httplib::to_string(answer.error()) + ")",
                ""};
        }
        std::this_thread::sleep_for(kRetryPause);
    }
}

shared::Result<void> Client::stream(const std::string& path, const std::string& last_event_id,
                                    const std::function<bool(const SseEvent&)>& on_event) {
    const auto connected = connection();
    if (!connected) return connected.error();
    auto& http = (*connected)->http;
    http.set_read_timeout(kStreamSilence);

    SseParser parser;
    int status = 0;
    bool finished = false;
    std::string refusal;
    httplib::Headers headers{{"Accept", "text/event-stream"}};
    if (!last_event_id.empty()) headers.emplace("Last-Event-ID", last_event_id);
    const auto answer = http.Get(
        path, headers,
        [&](const httplib::Response& response) {
            status = response.status;
            return true;
        },
        [&](const char* data, std::size_t size) {
            if (status >= 400) {
                refusal.append(data, size);
                return refusal.size() < 64 * 1024;
            }
            return parser.feed({data, size}, [&](const SseEvent& event) {
                finished = !on_event(event);
                return !finished;
            });
        });
    if (finished) {
        connection_.reset();  // cut in the middle of a stream: not to be used again
        return {};
    }
    if (answer && status >= 400 && status != 401) return error_of_answer(status, refusal);
    connection_.reset();
    return Error{ErrorCode::unreachable, "the stream from the daemon broke", ""};
}

}  // namespace cli
