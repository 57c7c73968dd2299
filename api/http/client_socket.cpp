#include "api/http/client_socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace http {

using shared::Milliseconds;
using shared::Monotonic;
using shared::TimePoint;

namespace {

constexpr std::size_t kReadBytes = 4 * 1024;  // grows with what is really there
constexpr std::size_t kMaxReadBytes = 64 * 1024;
constexpr std::size_t kQueueBytes = 64 * 1024;
constexpr Milliseconds kLingerDeadline{1'000};
// The kernel's own buffer for a client that does not read; twice that is really taken.
constexpr int kSendBufferBytes = 128 * 1024;

/// Milliseconds for poll(2), rounded up so that it never wakes before the time.
int poll_timeout(TimePoint until) {
    const auto left = std::chrono::ceil<Milliseconds>(until - Monotonic::now()).count();
    return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

/// False: the time has passed. Interrupted waits go on.
template <std::size_t N>
bool poll_until(std::array<pollfd, N>& fds, TimePoint until) {
    while (true) {
        const int ready = ::poll(fds.data(), fds.size(), poll_timeout(until));
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR)
            throw std::system_error(errno, std::generic_category(), "poll");
        if (Monotonic::now() >= until) return false;
    }
}

}  // namespace

class ClientSocket::EventWaker final : public Waker {
  public:
    EventWaker() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        if (!event_) throw std::system_error(errno, std::generic_category(), "eventfd");
    }
    void wake() override { (void)::eventfd_write(event_.get(), 1); }
    int fd() const { return event_.get(); }
    void clear() {
        eventfd_t count = 0;
        (void)::eventfd_read(event_.get(), &count);
    }

  private:
    shared::UniqueFd event_;
};

ClientSocket::ClientSocket(shared::UniqueFd socket, int stop_fd, Milliseconds write_deadline)
    : socket_(std::move(socket)), stop_fd_(stop_fd), write_deadline_(write_deadline) {
    const int on = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, &kSendBufferBytes, sizeof kSendBufferBytes);
    // A client whose window stays shut this long is cut off by the kernel, although no write of
    // ours waits: few small events would take hours to fill the buffer of one that never reads.
    const auto limit = static_cast<unsigned>(write_deadline.count());
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit);
}

ClientSocket::~ClientSocket() = default;

ClientSocket::Fill ClientSocket::fill(TimePoint deadline, std::size_t max_bytes) {
    std::array<pollfd, 2> fds{{{socket_.get(), POLLIN, 0}, {stop_fd_, POLLIN, 0}}};
    if (!poll_until(fds, deadline)) return Fill::timed_out;
    if (fds[1].revents) return Fill::ended;
    if (taken_ > 0) {
        in_.erase(0, taken_);
        taken_ = 0;
    }
    const std::size_t before = in_.size();
    const std::size_t room = std::min(
        {std::max(kReadBytes, before), kMaxReadBytes, std::max<std::size_t>(max_bytes, 1)});
    in_.resize(before + room);
    const ssize_t got = ::recv(socket_.get(), in_.data() + before, room, 0);
    in_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got > 0) return Fill::more;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return fill(deadline, max_bytes);
    return Fill::ended;
}

void ClientSocket::take(std::size_t bytes) {
    taken_ += bytes;
    ALBEDO_CHECK(taken_ <= in_.size());
}

bool ClientSocket::write(std::string_view bytes) {
    if (broken_) return false;
    if (out_.size() + bytes.size() <= kQueueBytes) {
        out_.append(bytes);
        return true;
    }
    return flush() && send_all(bytes);
}

bool ClientSocket::flush() {
    const bool sent = send_all(out_);
    out_.clear();
    return sent;
}

bool ClientSocket::send_all(std::string_view bytes) {
    while (!bytes.empty() && !broken_) {
        const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent > 0) {
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        } else if (errno == EAGAIN) {
            std::array<pollfd, 2> fds{{{socket_.get(), POLLOUT, 0}, {stop_fd_, POLLIN, 0}}};
            if (!poll_until(fds, Monotonic::now() + write_deadline_) || !(fds[0].revents & POLLOUT))
                broken_ = true;
        } else if (errno != EINTR) {
            broken_ = true;
        }
    }
    return !broken_;
}

void ClientSocket::linger() {
    if (broken_) return;
    ::shutdown(socket_.get(), SHUT_WR);
    const TimePoint until = Monotonic::now() + kLingerDeadline;
    std::array<char, 4096> rest;
    while (true) {
        std::array<pollfd, 2> fds{{{socket_.get(), POLLIN, 0}, {stop_fd_, POLLIN, 0}}};
        if (!poll_until(fds, until) || fds[1].revents) return;
        if (::recv(socket_.get(), rest.data(), rest.size(), 0) <= 0) return;
        if (Monotonic::now() >= until) return;
    }
}

void ClientSocket::shrink() {
    if (taken_ == in_.size()) {
        std::string().swap(in_);
        taken_ = 0;
    }
    if (out_.empty()) std::string().swap(out_);
}

std::shared_ptr<Waker> ClientSocket::waker() {
    if (!waker_) waker_ = std::make_shared<EventWaker>();
    return waker_;
}

Wake ClientSocket::wait(TimePoint until) {
    if (broken_) return Wake::gone;
    // POLLIN is left out on purpose: a client may have sent its next request already.
    std::array<pollfd, 3> fds{{{socket_.get(), POLLRDHUP, 0},
                               {stop_fd_, POLLIN, 0},
                               {waker_ ? waker_->fd() : -1, POLLIN, 0}}};
    if (!poll_until(fds, until)) return Wake::timed_out;
    if (fds[0].revents || fds[1].revents) return Wake::gone;
    waker_->clear();
    return Wake::woken;
}

}  // namespace http
