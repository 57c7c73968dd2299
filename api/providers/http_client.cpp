#include "api/providers/http_client.h"

#include <fcntl.h>
#include <httplib.h>
#include <signal.h>
#include <sys/socket.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "shared/unique_fd.h"

namespace providers {
namespace {

// What the caller and the request's thread share. `delivery` is held while the receiver runs, so
// that the caller, once it has set `abandoned` under it, may leave and take the receiver along.
struct Exchange {
    HttpRequest request;
    std::mutex delivery;
    const BodyReceiver* receiver = nullptr;
    bool abandoned = false;

    std::mutex mutex;
    std::condition_variable changed;
    shared::UniqueFd socket;  // a duplicate: shutting it down ends the connection without a race
    bool cancelled = false;
    bool done = false;
    HttpAnswer answer;
};

const char* words(httplib::Error error) {
    switch (error) {
        case httplib::Error::Connection:
            return "cannot connect (name not found, refused, or out of reach)";
        case httplib::Error::ConnectionTimeout:
            return "no connection within 10 s";
        case httplib::Error::Read:
            return "the connection was cut, or silent for too long";
        case httplib::Error::Write:
            return "the connection was cut while sending";
        case httplib::Error::SSLConnection:
            return "TLS could not be agreed on";
        case httplib::Error::SSLLoadingCerts:
            return "the system's certificates cannot be read";
        case httplib::Error::SSLServerVerification:
            return "the server's certificate is not trusted";
        default:
            return "the request failed";
    }
}

void perform(Exchange& exchange) {
    const HttpRequest& wanted = exchange.request;
    const bool is_v6 = wanted.url.host.find(':') != std::string::npos;
    httplib::Client client((wanted.url.tls ? "https://" : "http://") +
                           (is_v6 ? "[" + wanted.url.host + "]" : wanted.url.host) + ":" +
                           std::to_string(wanted.url.port));
    client.set_connection_timeout(kConnectDeadline);
    client.set_write_timeout(kWriteDeadline);
    client.set_read_timeout(wanted.read_deadline);
    client.set_tcp_nodelay(true);
    client.set_url_encode(false);
    if (wanted.proxy) {
        client.set_proxy(wanted.proxy->host, wanted.proxy->port);
        if (!wanted.proxy->user.empty())
            client.set_proxy_basic_auth(wanted.proxy->user, wanted.proxy->password);
    }
    client.set_socket_options([&exchange](socket_t socket) {
        std::lock_guard lock(exchange.mutex);
        exchange.socket.reset(fcntl(socket, F_DUPFD_CLOEXEC, 0));
        if (exchange.cancelled) shutdown(socket, SHUT_RDWR);
    });

    HttpAnswer answer;
    std::size_t taken = 0;
    httplib::Request request;
    request.method = "POST";
    request.path = wanted.url.path;
    for (const auto& [name, value] : wanted.headers) request.headers.emplace(name, value);
    request.body = wanted.body;
    request.response_handler = [&](const httplib::Response& response) {
        answer.status = response.status;
        answer.retry_after = response.get_header_value("Retry-After");
        return true;
    };
    request.content_receiver = [&](const char* data, std::size_t size, std::uint64_t,
                                   std::uint64_t) {
        if (answer.status != 200) {
            const auto room = kMaxErrorBodyBytes - answer.error_body.size();
            answer.error_body.append(data, std::min(size, room));
            return size <= room;
        }
        taken += size;
        if (taken > kMaxAnswerBytes) {
            answer.problem = "the answer is too long";
            return false;
        }
        std::lock_guard lock(exchange.delivery);
        return !exchange.abandoned && (*exchange.receiver)({data, size});
    };
    httplib::Response response;
    httplib::Error error = httplib::Error::Success;
    const bool sent = client.send(request, response, error);
    if (!sent && answer.problem.empty() && error != httplib::Error::Canceled)
        answer.problem = words(error);
    if (sent && answer.status == 0) answer.status = response.status;

    std::lock_guard lock(exchange.mutex);
    exchange.answer = std::move(answer);
    exchange.socket.reset();
    exchange.done = true;
    exchange.changed.notify_all();
}

}  // namespace

HttpAnswer post(HttpRequest request, const BodyReceiver& receiver, CancelToken& cancel) {
    auto exchange = std::make_shared<Exchange>();
    exchange->request = std::move(request);
    exchange->receiver = &receiver;
    HttpAnswer stopped;
    stopped.cancelled = true;
    stopped.problem = "cancelled";
    if (cancel.cancelled()) return stopped;

    CancelToken::Subscription subscription(cancel, [exchange] {
        std::lock_guard lock(exchange->mutex);
        exchange->cancelled = true;
        if (exchange->socket) shutdown(exchange->socket.get(), SHUT_RDWR);
        exchange->changed.notify_all();
    });
    // The library writes without MSG_NOSIGNAL, and no signal of the process belongs here.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([exchange] {
        try {
            perform(*exchange);
        } catch (const std::exception& fault) {
            std::lock_guard lock(exchange->mutex);
            exchange->answer.problem = fault.what();
            exchange->done = true;
            exchange->changed.notify_all();
        }
    }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);

    bool is_done = false;
    {
        // The deadlines that end this wait are the thread's: connect, write, silence, size.
        std::unique_lock lock(exchange->mutex);
        exchange->changed.wait(lock, [&] { return exchange->done || exchange->cancelled; });
        // A cancel cuts the connection: the thread may end of that before we wake.
        is_done = exchange->done && (!exchange->cancelled || exchange->answer.problem.empty());
    }
    if (is_done) return std::move(exchange->answer);
    std::lock_guard lock(exchange->delivery);
    exchange->abandoned = true;
    return stopped;
}

}  // namespace providers
