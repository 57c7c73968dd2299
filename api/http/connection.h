// One client's requests, one after the other: reads each, judges it, lets its route answer. The
// steps and their order stand in server.h.
#pragma once

#include <atomic>
#include <memory>

#include "api/http/client_socket.h"
#include "api/http/request_head.h"
#include "api/http/router.h"
#include "api/http/server.h"

namespace http {

/// What all connections of a server share; outlives each of them.
struct ServerContext {
    ServerOptions options;
    Router router;
    std::atomic<bool> draining = false;
};

/// Turns responses into bytes. Owns cpp-httplib; the rest of the folder does not see it.
class ResponseWriter {
  public:
    explicit ResponseWriter(ClientSocket& socket);
    ~ResponseWriter();

    /// Writes what `respond` returns, streams included, to the request's client. `close`: the
    /// client is told that the connection ends. False: the client is gone.
    bool write(const RequestHead& head, bool close, const std::function<Response()>& respond);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

class Connection {
  public:
    Connection(const ServerContext& context, ClientSocket& socket);

    /// Until the client leaves, breaks a rule, or asks for the end.
    void serve();
    /// Answers one request with 503 and ends: for a client that is one too many.
    void turn_away();

  private:
    enum class Read { head, nothing, refused };
    Read read_head(shared::TimePoint first_byte_by, RequestHead& head);
    bool serve_one(RequestHead& head);
    bool refuse(const RequestHead& head, const Response& response);
    std::optional<Response> judge(const RequestHead& head, Router::Match& match,
                                  BodyFraming& framing) const;
    Response handle(const Route& route, const Request& request) const;
    Response handled(const Route& route, const Request& request) const;

    const ServerContext& context_;
    ClientSocket& socket_;
    ResponseWriter writer_;
};

}  // namespace http
