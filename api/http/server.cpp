#include "api/http/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>
#include <thread>

#include "api/http/connection.h"
#include "api/http/worker_threads.h"
#include "shared/log.h"

namespace http {

using shared::Milliseconds;
using shared::Monotonic;
using shared::UniqueFd;

namespace {

// So many clients past the limit are still told so; the next ones are only hung up on.
constexpr std::size_t kTurnedAwayAtOnce = 64;
constexpr int kPauseWithoutDescriptorsMs = 50;

}  // namespace

struct Server::State {
    ServerContext context;
    UniqueFd stop_event;
    UniqueFd listener;
    WorkerThreads workers{kStackBytes};
    std::thread acceptor;
    std::atomic<std::size_t> open = 0;

    void accept_loop(const std::shared_ptr<State>& self);
    void admit(UniqueFd socket, const std::shared_ptr<State>& self);
    void serve(UniqueFd socket, bool too_many);
};

void Server::State::accept_loop(const std::shared_ptr<State>& self) {
    std::array<pollfd, 2> fds{{{listener.get(), POLLIN, 0}, {stop_event.get(), POLLIN, 0}}};
    while (true) {
        if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) return;
        if (fds[1].revents) return;
        UniqueFd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (socket) {
            admit(std::move(socket), self);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            // The client waits in the backlog until somebody else is done.
            shared::log_warning("no client can be accepted", {{"why", std::strerror(errno)}});
            if (::poll(&fds[1], 1, kPauseWithoutDescriptorsMs) > 0) return;
        }
    }
}

void Server::State::admit(UniqueFd socket, const std::shared_ptr<State>& self) {
    const std::size_t limit = context.options.max_connections;
    if (open >= limit + kTurnedAwayAtOnce) return;  // hung up
    const bool too_many = ++open > limit;
    auto shared_socket = std::make_shared<UniqueFd>(std::move(socket));  // std::function copies
    const bool started = workers.run([self, shared_socket, too_many] {
        self->serve(std::move(*shared_socket), too_many);
        --self->open;
    });
    if (started) return;
    --open;
    shared::log_warning("no thread for a client", {});
}

void Server::State::serve(UniqueFd fd, bool too_many) {
    try {
        ClientSocket socket(std::move(fd), stop_event.get(), context.options.write_deadline);
        Connection connection(context, socket);
        if (too_many)
            connection.turn_away();
        else
            connection.serve();
    } catch (const std::exception& fault) {
        shared::log_error("a connection failed", {{"what", fault.what()}});
    }
}

Server::Server(ServerOptions options) : state_(std::make_shared<State>()) {
    state_->context.options = std::move(options);
    state_->stop_event.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!state_->stop_event) throw std::system_error(errno, std::generic_category(), "eventfd");
}

Server::~Server() {
    (void)stop();
}

void Server::route(std::string_view method, std::string_view pattern, Handler handler,
                   RouteOptions options) {
    ALBEDO_CHECK(!state_->listener);
    state_->context.router.add(
        {std::string(method), std::string(pattern), std::move(handler), options});
}

void Server::start(UniqueFd listener) {
    const int flags = ::fcntl(listener.get(), F_GETFL);
    if (flags < 0 || ::fcntl(listener.get(), F_SETFL, flags | O_NONBLOCK) < 0)
        throw std::system_error(errno, std::generic_category(), "the listening socket");
    state_->listener = std::move(listener);
    state_->acceptor = std::thread([self = state_] { self->accept_loop(self); });
}

void Server::drain() {
    state_->context.draining = true;
}

bool Server::stop(Milliseconds deadline) {
    const auto until = Monotonic::now() + deadline;
    (void)::eventfd_write(state_->stop_event.get(), 1);
    if (state_->acceptor.joinable()) state_->acceptor.join();  // it waits for nothing but this
    state_->listener.reset();
    return state_->workers.close(until);
}

std::size_t Server::connections() const {
    return state_->open;
}

}  // namespace http
