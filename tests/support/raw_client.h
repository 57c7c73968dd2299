// A TCP client that does exactly what it is told, for servers that have to bear anything.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

#include "shared/clock.h"
#include "shared/unique_fd.h"

namespace support {

/// A listening socket on a port of the kernel's choice.
inline shared::UniqueFd listen_on_loopback(std::uint16_t& port) {
    shared::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(listener.get(), generic, size) == 0);
    REQUIRE(::listen(listener.get(), 4096) == 0);
    REQUIRE(::getsockname(listener.get(), generic, &size) == 0);
    port = ntohs(address.sin_port);
    return listener;
}

class RawClient {
  public:
    explicit RawClient(std::uint16_t port, int receive_buffer = 0)
        : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        if (receive_buffer > 0)
            ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer,
                         sizeof receive_buffer);
        sockaddr_in address = {};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(port);
        REQUIRE(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) ==
                0);
    }

    /// False: the server has closed.
    bool send(std::string_view bytes) {
        while (!bytes.empty()) {
            const auto sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (sent <= 0) return false;
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
        return true;
    }
    void half_close() { ::shutdown(socket_.get(), SHUT_WR); }
    void reset() {
        const linger hard = {1, 0};
        ::setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        socket_.reset();
    }
    void close() { socket_.reset(); }

    /// Sends `bytes` again and again; true: the server ended that within the limit.
    bool send_until_refused(std::string_view bytes, std::chrono::milliseconds limit = kLimit) {
        const auto until = shared::Monotonic::now() + limit;
        while (send(bytes))
            if (shared::Monotonic::now() >= until) return false;
        return true;
    }

    /// Reads on until `text` stands in what was read, the end, or the deadline.
    bool read_until(std::string_view text, std::chrono::milliseconds limit = kLimit) {
        return read([&] { return received.find(text) != std::string::npos; }, limit);
    }
    /// True: the server closed within the limit.
    bool read_to_end(std::chrono::milliseconds limit = kLimit) {
        (void)read([] { return false; }, limit);
        return ended_;
    }
    /// One response with a Content-Length; it is taken out of `received`.
    std::string response(std::chrono::milliseconds limit = kLimit) {
        std::size_t size = std::string::npos;
        read(
            [&] {
                const auto head = received.find("\r\n\r\n");
                if (head == std::string::npos) return false;
                const auto length = received.find("Content-Length: ");
                size =
                    head + 4 + (length < head ? std::stoul(received.substr(length + 16, 20)) : 0);
                return received.size() >= size;
            },
            limit);
        std::string one = received.substr(0, size);
        received.erase(0, one.size());
        return one;
    }

    std::string received;

  private:
    static constexpr std::chrono::milliseconds kLimit{20'000};

    template <class Enough>
    bool read(Enough enough, std::chrono::milliseconds limit) {
        const auto until = shared::Monotonic::now() + limit;
        while (!enough()) {
            pollfd readable = {socket_.get(), POLLIN, 0};
            const auto left =
                std::chrono::ceil<std::chrono::milliseconds>(until - shared::Monotonic::now());
            if (left.count() <= 0 || ::poll(&readable, 1, static_cast<int>(left.count())) <= 0)
                return false;
            char part[16 * 1024];
            const auto got = ::recv(socket_.get(), part, sizeof part, 0);
            ended_ = got <= 0;
            if (ended_) return enough();
            received.append(part, static_cast<std::size_t>(got));
        }
        return true;
    }

    shared::UniqueFd socket_;
    bool ended_ = false;
};

inline std::size_t entries(const char* folder) {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
    return count;
}
inline std::size_t threads() {
    return entries("/proc/self/task");
}
inline std::size_t descriptors() {
    return entries("/proc/self/fd");
}

/// Looks again and again until it is so, or the deadline.
template <class Condition>
bool eventually(Condition condition, std::chrono::milliseconds limit) {
    const auto until = shared::Monotonic::now() + limit;
    while (!condition()) {
        if (shared::Monotonic::now() >= until) return false;
        ::usleep(5'000);
    }
    return true;
}

}  // namespace support
