// The HTTP server in a process of its own, from outside, over loopback:
//   rate     requests/s of 16 keep-alive connections, a 200-byte JSON answer
//   latency  of one request on one connection; alone, beside 500 idle streams and 64 waiting calls,
//            and with a new connection each
//   pss      memory that one more idle stream costs the server
//   bare     a thread that reads and writes the same bytes without a server: the floor
// Rows: group, name, median, p99, unit, n. Optional argument: seconds per measurement.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "api/http/server.h"
#include "api/http/sse.h"
#include "shared/clock.h"
#include "shared/unique_fd.h"

namespace {

using shared::Monotonic;
using shared::UniqueFd;

constexpr int kConnections = 16;
constexpr int kStreams = 500;
constexpr int kWaitingCalls = 64;
const std::string kBody = "{\"text\":\"" + std::string(188, 'x') + "\"}";

[[noreturn]] void die(const char* what) {
    std::perror(what);
    std::_Exit(2);
}

std::string request(const std::string& path) {
    return "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer t\r\n\r\n";
}

UniqueFd listener(std::uint16_t& port) {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket.get(), generic, size) < 0 || ::listen(socket.get(), 4096) < 0 ||
        ::getsockname(socket.get(), generic, &size) < 0)
        die("listen");
    port = ntohs(address.sin_port);
    return socket;
}

class Client {
  public:
    explicit Client(std::uint16_t port)
        : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(port);
        const int on = 1;
        const timeval limit = {10, 0};
        ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        if (::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) < 0)
            die("connect");
    }
    void send(const std::string& bytes) {
        if (::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
            static_cast<ssize_t>(bytes.size()))
            die("send");
    }
    void receive_until(const std::string& text) {
        received_.clear();
        while (received_.find(text) == std::string::npos) {
            char part[4096];
            const auto got = ::recv(socket_.get(), part, sizeof part, 0);
            if (got <= 0) die("recv");
            received_.append(part, static_cast<std::size_t>(got));
        }
    }

  private:
    UniqueFd socket_;
    std::string received_;
};

void serve(UniqueFd socket) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    http::ServerOptions options;
    options.token = "t";
    http::Server server(std::move(options));
    server.route("GET", "/small", [](const http::Request&) {
        http::Response response;
        response.body = kBody;
        return response;
    });
    server.route("GET", "/wait", [](const http::Request& asked) {
        (void)asked.client->wait(Monotonic::now() + std::chrono::minutes(5));
        return http::Response{};
    });
    server.route("GET", "/stream", [](const http::Request&) {
        return http::event_stream([](http::EventStream& events) {
            const auto waker = events.waker();
            while (events.wait(Monotonic::now() + std::chrono::minutes(5)) != http::Wake::gone)
                continue;
        });
    });
    server.start(std::move(socket));
    ::pause();
}

/// Answers as the server would, with nothing in between.
void serve_bare(UniqueFd socket) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const std::string answer =
        "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kBody.size()) + "\r\n\r\n" + kBody;
    while (true) {
        const int connection = ::accept(socket.get(), nullptr, nullptr);
        const int on = 1;
        ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        std::thread([connection, answer] {
            UniqueFd mine(connection);
            char part[4096];
            while (::recv(connection, part, sizeof part, 0) > 0)
                (void)!::send(connection, answer.data(), answer.size(), MSG_NOSIGNAL);
        }).detach();
    }
}

template <class Serve>
pid_t start(Serve serve_it, std::uint16_t& port) {
    auto socket = listener(port);
    const pid_t child = ::fork();
    if (child == 0) serve_it(std::move(socket));
    return child;
}

long pss_kb(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
    std::string word;
    while (file >> word)
        if (word == "Pss:" && file >> word) return std::stol(word);
    die("smaps_rollup");
}

void row(const char* group, const char* name, std::vector<double> values, const char* unit) {
    std::sort(values.begin(), values.end());
    std::printf("%s\t%s\t%.4g\t%.4g\t%s\t%zu\n", group, name, values[values.size() / 2],
                values[values.size() * 99 / 100], unit, values.size());
    std::fflush(stdout);
}

std::vector<double> latencies(std::uint16_t port, double seconds, bool fresh_connections) {
    std::vector<double> microseconds;
    Client kept(port);
    const auto end = Monotonic::now() + std::chrono::duration<double>(seconds);
    while (Monotonic::now() < end) {
        const auto begun = Monotonic::now();
        if (fresh_connections) {
            Client fresh(port);
            fresh.send(request("/small"));
            fresh.receive_until(kBody);
        } else {
            kept.send(request("/small"));
            kept.receive_until(kBody);
        }
        microseconds.push_back(
            std::chrono::duration<double, std::micro>(Monotonic::now() - begun).count());
    }
    return microseconds;
}

double rate(std::uint16_t port, double seconds) {
    std::atomic<long> answered = 0;
    std::vector<std::thread> threads;
    const auto end = Monotonic::now() + std::chrono::duration<double>(seconds);
    for (int i = 0; i < kConnections; ++i)
        threads.emplace_back([&] {
            Client client(port);
            long mine = 0;
            for (; Monotonic::now() < end; ++mine) {
                client.send(request("/small"));
                client.receive_until(kBody);
            }
            answered += mine;
        });
    for (auto& thread : threads) thread.join();
    return static_cast<double>(answered) / seconds;
}

}  // namespace

int main(int argc, char** argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
    std::uint16_t port = 0, bare_port = 0;
    const pid_t server = start(serve, port);
    const pid_t bare = start(serve_bare, bare_port);
    row("http_latency", "bare", latencies(bare_port, seconds, false), "us");
    row("http_latency", "alone", latencies(port, seconds, false), "us");
    row("http_latency", "new_connection", latencies(port, seconds, true), "us");
    row("http_rate", "bare", {rate(bare_port, seconds)}, "requests/s");
    row("http_rate", "albedo", {rate(port, seconds)}, "requests/s");

    const long before = pss_kb(server);
    std::vector<Client> streams;
    for (int i = 0; i < kStreams; ++i) {
        streams.emplace_back(port);
        streams.back().send(request("/stream"));
        streams.back().receive_until("\r\n\r\n");
    }
    row("http_pss", "idle_stream", {static_cast<double>(pss_kb(server) - before) / kStreams}, "kB");
    std::vector<Client> calls;
    for (int i = 0; i < kWaitingCalls; ++i) {
        calls.emplace_back(port);
        calls.back().send(request("/wait"));
    }
    row("http_latency", "beside_500_streams_64_calls", latencies(port, seconds, false), "us");
    for (const pid_t child : {server, bare}) {
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
    }
    return 0;
}
