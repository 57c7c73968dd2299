// The one user of cpp-httplib in the server. It is handed a request of one line that we made from
// the judged head, and calls back for the response, which it turns into bytes: status line,
// headers, length or chunks. Its listen(), stop(), routing (std::regex on the client's text, deep
// in the stack) and body reading (unbounded) are never reached.
#include <httplib.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "api/http/connection.h"
#include "api/http/errors.h"
#include "shared/log.h"

namespace http {

namespace {

/// What httplib reads its request from and writes its response to.
class MemoryStream final : public httplib::Stream {
  public:
    MemoryStream(ClientSocket& socket, std::string request)
        : socket_(socket), request_(std::move(request)) {}

    bool is_readable() const override { return true; }
    bool is_writable() const override { return true; }
    ssize_t read(char* into, std::size_t size) override {
        const auto count = std::min(size, request_.size() - read_);
        std::memcpy(into, request_.data() + read_, count);
        read_ += count;
        return static_cast<ssize_t>(count);
    }
    ssize_t write(const char* bytes, std::size_t size) override {
        return socket_.write({bytes, size}) ? static_cast<ssize_t>(size) : -1;
    }
    void get_remote_ip_and_port(std::string& ip, int& port) const override {
        ip = "127.0.0.1";
        port = 0;
    }
    void get_local_ip_and_port(std::string& ip, int& port) const override {
        ip = "127.0.0.1";
        port = 0;
    }
    // It would refuse descriptors from FD_SETSIZE on, and uses them for nothing else.
    socket_t socket() const override { return 0; }

  private:
    ClientSocket& socket_;
    std::string request_;
    std::size_t read_ = 0;
};

class SinkWriter final : public StreamWriter {
  public:
    SinkWriter(ClientSocket& socket, httplib::DataSink& sink) : socket_(socket), sink_(sink) {}
    bool write(std::string_view bytes) override {
        // An empty chunk would be the end of the response.
        if (bytes.empty()) return true;
        const bool sent = sink_.write(bytes.data(), bytes.size()) && socket_.flush();
        socket_.shrink();
        return sent;
    }
    Client& client() override { return socket_; }

  private:
    ClientSocket& socket_;
    httplib::DataSink& sink_;
};

}  // namespace

struct ResponseWriter::State final : httplib::Server {
    explicit State(ClientSocket& to) : socket(to) {
        svr_sock_ = 0;  // chunked responses run only while this looks like a socket
        set_keep_alive_timeout(
            std::chrono::duration_cast<std::chrono::seconds>(kIdleDeadline).count());
        set_keep_alive_max_count(1'000'000);
        set_pre_routing_handler([this](const httplib::Request&, httplib::Response& response) {
            fill(response, (*respond)());
            return HandlerResponse::Handled;
        });
    }

    void fill(httplib::Response& into, Response from) {
        into.status = from.status;
        for (const auto& [name, value] : from.headers) into.set_header(name, value);
        if (!from.stream) {
            into.body = std::move(from.body);
            into.set_header("Content-Type", from.content_type);
            return;
        }
        auto provider = [this, stream = std::move(from.stream)](std::size_t,
                                                                httplib::DataSink& sink) {
            SinkWriter writer(socket, sink);
            try {
                if (!socket.flush()) return false;
                socket.shrink();
                stream(writer);
            } catch (const std::exception& fault) {
                // The status has left; a response without its end tells the client.
                shared::log_error("a stream failed", {{"what", fault.what()}});
                return false;
            }
            sink.done();
            return true;
        };
        if (http_1_0)
            into.set_content_provider(from.content_type, std::move(provider));
        else
            into.set_chunked_content_provider(from.content_type, std::move(provider));
    }

    bool process(httplib::Stream& stream, bool close) {
        bool closed = false;
        return process_request(stream, close, closed, nullptr);
    }

    ClientSocket& socket;
    const std::function<Response()>* respond = nullptr;
    bool http_1_0 = false;
};

ResponseWriter::ResponseWriter(ClientSocket& socket) : state_(std::make_unique<State>(socket)) {}
ResponseWriter::~ResponseWriter() = default;

bool ResponseWriter::write(const RequestHead& head, bool close,
                           const std::function<Response()>& respond) {
    state_->respond = &respond;
    state_->http_1_0 = head.http_1_0;
    // HEAD alone changes how a response is written.
    MemoryStream stream(state_->socket, std::string(head.method == "HEAD" ? "HEAD" : "GET") +
                                            " / HTTP/1.1\r\n\r\n");
    const bool written = state_->process(stream, close);
    return state_->socket.flush() && written;
}

}  // namespace http
