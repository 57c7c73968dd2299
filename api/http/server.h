// The daemon's HTTP server on an inherited loopback listener: routes, access, limits, streams.
// It knows nothing of sessions, hosts or SQL. cpp-httplib (in response_writer.cpp) turns responses
// into bytes; accepting, waiting, reading, limits, access and routing are ours:
//  - one accept thread, one worker thread per open connection, kMaxConnections of them; a client
//    beyond gets 503 and `Retry-After`.
//  - a request's line and headers together have kMaxHeadBytes and kHeadDeadline, before anything
//    is believed: 431, 408. Host and Origin are judged first (403), then the token (401), then the
//    route (404, 405), then the body's size and kind (413, 415, 400), then the handler runs.
//  - a body is counted in bytes really read and is never read for a client without the token.
//  - a client that takes no byte for kWriteDeadline is dropped.
// Handlers run on the connection's thread (kStackBytes of stack) and may block up to their own
// deadlines. Whoever waits for something else than the disk waits through Client::wait(), which
// also ends when the client has left or the server stops. What a handler throws becomes a 500 and
// one line in the log.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/clock.h"
#include "shared/result.h"
#include "shared/unique_fd.h"

namespace http {

inline constexpr std::size_t kDefaultBodyLimit = 64 * 1024;
inline constexpr std::size_t kMaxHeadBytes = 64 * 1024;
inline constexpr std::size_t kMaxConnections = 2048;
inline constexpr std::size_t kStackBytes = 512 * 1024;  // reserved; an idle stream touches 16 KiB
inline constexpr shared::Milliseconds kHeadDeadline{10'000};   // from a request's first byte
inline constexpr shared::Milliseconds kIdleDeadline{30'000};   // between two requests
inline constexpr shared::Milliseconds kBodyDeadline{60'000};   // for a whole body
inline constexpr shared::Milliseconds kWriteDeadline{20'000};  // without one byte taken
inline constexpr shared::Milliseconds kStopDeadline{1'000};

/// Wakes the thread that waits for one client. From any thread, at any time, also after the client
/// has left.
class Waker {
  public:
    virtual ~Waker() = default;
    virtual void wake() = 0;
};

enum class Wake {
    woken,      // by the waker; wakes before the wait count, several may become one
    timed_out,  // `until` has passed
    gone,       // the client hung up, or the server stops: end the work of this request
};

/// The client at the other end, lent to the handler for the time of its request.
class Client {
  public:
    virtual ~Client() = default;
    virtual std::shared_ptr<Waker> waker() = 0;
    virtual Wake wait(shared::TimePoint until) = 0;
};

/// Where the handler of a stream writes. False: the client is gone or does not read; end.
class StreamWriter {
  public:
    virtual ~StreamWriter() = default;
    virtual bool write(std::string_view bytes) = 0;  // blocks up to kWriteDeadline
    virtual Client& client() = 0;
};

struct Request {
    std::string method;                                          // "GET"
    std::string path;                                            // as sent, still escaped
    std::map<std::string, std::string, std::less<>> parameters;  // of `:name`, unescaped
    std::multimap<std::string, std::string> queries;             // unescaped
    std::vector<std::pair<std::string, std::string>> headers;    // names in lower case
    std::string body;
    Client* client = nullptr;

    /// A parameter of the route's own pattern; a bug of the route if there is none.
    const std::string& parameter(std::string_view name) const;
    std::optional<std::string> query(const std::string& name) const;  // the first of that name
    std::optional<std::string> header(std::string_view lower_name) const;
};

struct Response {
    int status = 200;
    std::string body;
    std::string content_type = "application/json";
    std::vector<std::pair<std::string, std::string>> headers;
    /// If set, `body` is ignored: called after status and headers left, and the response ends when
    /// it returns. Use http::event_stream() of sse.h for event streams.
    std::function<void(StreamWriter&)> stream;
};

using Handler = std::function<Response(const Request&)>;

struct RouteOptions {
    std::size_t body_limit = kDefaultBodyLimit;
};

struct ServerOptions {
    std::string token{};
    std::size_t max_connections = kMaxConnections;
    std::function<void()> on_request{};  // for counters; from any worker thread
    /// Every answer: the route's pattern ("-" where none was reached) and how long its handler took.
    std::function<void(const std::string& method, const std::string& pattern, int status,
                       std::chrono::nanoseconds took)>
        on_response{};
    /// How long to wait for requests; shorter in tests.
    shared::Milliseconds head_deadline = kHeadDeadline, idle_deadline = kIdleDeadline,
                         body_deadline = kBodyDeadline, write_deadline = kWriteDeadline;
};

class Server {
  public:
    explicit Server(ServerOptions options);
    /// stop() for kStopDeadline.
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    /// `pattern`: "/sessions/:id/cells". To be called before start(). Literal segments win over
    /// parameters. Two routes alike are a bug.
    void route(std::string_view method, std::string_view pattern, Handler handler,
               RouteOptions options = {});

    /// Serves `listener` (bound and listening; lent to the kernel only as long as this lives).
    /// Throws std::system_error when no thread can be started.
    void start(shared::UniqueFd listener);

    /// From now on every new request is answered 503; open ones go on.
    void drain();

    /// Stops accepting, lets Client::wait() say `gone`, ends every connection. False when a handler
    /// was still busy at the deadline: its thread lives on, and the process should end by _exit.
    bool stop(shared::Milliseconds deadline = kStopDeadline);

    std::size_t connections() const;  // open now

  private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace http
