#include "shared/control_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace shared {
namespace {

constexpr std::size_t kRoomForDescriptors = CMSG_SPACE(sizeof(int) * kMaxControlDescriptors);

Error socket_error(const char* what) {
    return {ErrorCode::failed,
            std::string("control socket: ") + what + ": " + std::strerror(errno),
            {}};
}

/// 1 sent, 0 would block, -1 failed with errno.
int send_now(int fd, std::string_view bytes, const std::vector<int>& descriptors) {
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[kRoomForDescriptors] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
        const std::size_t size = sizeof(int) * descriptors.size();
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(size);
        cmsghdr* head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(size);
        std::memcpy(CMSG_DATA(head), descriptors.data(), size);
    }
    for (;;) {
        if (::sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return 1;
        if (errno == EINTR) continue;
        return errno == EAGAIN || errno == ENOBUFS ? 0 : -1;
    }
}

std::vector<UniqueFd> descriptors_of(msghdr& message) {
    std::vector<UniqueFd> found;
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof fd);
            found.emplace_back(fd);
        }
    }
    return found;
}

}  // namespace

std::pair<ControlSocket, ControlSocket> ControlSocket::make_pair() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0) {
        throw std::system_error(errno, std::generic_category(), "socketpair");
    }
    return {ControlSocket(UniqueFd(ends[0])), ControlSocket(UniqueFd(ends[1]))};
}

ControlSocket::ControlSocket(UniqueFd fd) : fd_(std::move(fd)) {}

Result<void> ControlSocket::send(std::string_view bytes, const std::vector<int>& descriptors) {
    if (bytes.empty() || bytes.size() > kMaxControlBytes ||
        descriptors.size() > kMaxControlDescriptors) {
        return Error{ErrorCode::too_large, "a control message is empty or over its limits", {}};
    }
    if (auto flushed = flush(); !flushed) return flushed;
    if (queue_.empty()) {
        const int sent = send_now(fd_.get(), bytes, descriptors);
        if (sent < 0) return socket_error("send");
        if (sent > 0) return {};
    }
    if (queue_.size() == kMaxControlQueue) {
        return Error{
            ErrorCode::overloaded, "64 control messages wait for a peer that reads none", {}};
    }
    ControlMessage waiting{std::string(bytes), {}, false};
    for (const int fd : descriptors) {
        waiting.descriptors.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
        if (!waiting.descriptors.back()) return socket_error("dup");
    }
    queue_.push_back(std::move(waiting));
    return {};
}

Result<void> ControlSocket::flush() {
    while (!queue_.empty()) {
        std::vector<int> lent;
        for (const UniqueFd& each : queue_.front().descriptors) lent.push_back(each.get());
        const int sent = send_now(fd_.get(), queue_.front().bytes, lent);
        if (sent < 0) return socket_error("send");
        if (sent == 0) return {};
        queue_.pop_front();
    }
    return {};
}

Result<std::optional<ControlMessage>> ControlSocket::receive() {
    ControlMessage received;
    received.bytes.resize(kMaxControlBytes);
    alignas(cmsghdr) char control[kRoomForDescriptors];
    iovec part{received.bytes.data(), received.bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t got;
    do {
        got = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        if (errno == EAGAIN) return std::optional<ControlMessage>();
        if (errno != ECONNRESET) return socket_error("receive");
        got = 0;
    }
    received.descriptors = descriptors_of(message);
    received.descriptors_lost = (message.msg_flags & MSG_CTRUNC) != 0;
    if (message.msg_flags & MSG_TRUNC) {
        return Error{ErrorCode::protocol, "a control message over 64 KiB", {}};
    }
    received.bytes.resize(static_cast<std::size_t>(got));
    return std::optional<ControlMessage>(std::move(received));
}

}  // namespace shared
