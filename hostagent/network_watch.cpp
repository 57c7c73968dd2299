#include "hostagent/network_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace hostagent {

namespace {

using Descriptor = asio::posix::stream_descriptor;

int open_addresses() {
    const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (fd < 0) return -1;
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
    if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
    ::close(fd);
    return -1;
}

}  // namespace

NetworkWatch::NetworkWatch(const asio::any_io_executor& executor, std::function<void()> changed)
    : clock_(executor), addresses_(executor), settle_(executor), changed_(std::move(changed)) {
    if (const int fd = ::timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK); fd >= 0) {
        clock_.assign(fd);
        arm_clock();
        wait_clock();
    }
    if (const int fd = open_addresses(); fd >= 0) {
        addresses_.assign(fd);
        wait_addresses();
    }
}

void NetworkWatch::arm_clock() {
    // Far ahead: it never expires, but is cancelled when the clock is set, as it is after sleep.
    itimerspec far{};
    ::clock_gettime(CLOCK_REALTIME, &far.it_value);
    far.it_value.tv_sec += 10L * 365 * 24 * 3600;
    ::timerfd_settime(clock_.native_handle(), TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far,
                      nullptr);
}

void NetworkWatch::wait_clock() {
    clock_.async_wait(Descriptor::wait_read, [this](const boost::system::error_code& error) {
        if (error) return;
        std::uint64_t expirations = 0;
        if (::read(clock_.native_handle(), &expirations, sizeof expirations) < 0 &&
            errno == ECANCELED)
            tell();
        arm_clock();
        wait_clock();
    });
}

void NetworkWatch::wait_addresses() {
    addresses_.async_wait(Descriptor::wait_read, [this](const boost::system::error_code& error) {
        if (error) return;
        alignas(nlmsghdr) char messages[4096];
        bool any = false;
        for (;;) {
            const ssize_t got =
                ::recv(addresses_.native_handle(), messages, sizeof messages, MSG_DONTWAIT);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0 && errno == ENOBUFS) any = true;  // so many that some were lost
            if (got <= 0) break;
            auto left = static_cast<unsigned>(got);
            for (auto* head = reinterpret_cast<nlmsghdr*>(messages); NLMSG_OK(head, left);
                 head = NLMSG_NEXT(head, left))
                any = any || head->nlmsg_type == RTM_NEWADDR || head->nlmsg_type == RTM_DELADDR;
        }
        if (any) tell();
        wait_addresses();
    });
}

void NetworkWatch::tell() {
    if (settling_) return;
    settling_ = true;
    settle_.expires_after(kSettle);
    settle_.async_wait([this](const boost::system::error_code& error) {
        settling_ = false;
        if (!error) changed_();
    });
}

}  // namespace hostagent
