#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "shared/control_socket.h"

using namespace shared;

namespace {

std::ptrdiff_t open_descriptors() {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

ControlMessage only(ControlSocket& socket) {
    auto got = socket.receive();
    REQUIRE(got);
    REQUIRE(*got);
    return std::move(**got);
}

bool nothing(ControlSocket& socket) {
    auto got = socket.receive();
    REQUIRE(got);
    return !*got;
}

/// Fills what the kernel takes, then the queue; returns how many messages went in.
int fill(ControlSocket& socket, std::size_t bytes) {
    for (int sent = 0;; ++sent) {
        const auto result = socket.send(std::string(bytes, static_cast<char>('a' + sent % 26)));
        if (result) continue;
        REQUIRE(result.error().code == ErrorCode::overloaded);
        return sent;
    }
}

}  // namespace

TEST_CASE("a message is one datagram, with its descriptors in order, close-on-exec") {
    auto [left, right] = ControlSocket::make_pair();
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const UniqueFd read_end(ends[0]), write_end(ends[1]);
    CHECK(nothing(right));
    REQUIRE(left.send("first", {read_end.get(), write_end.get()}));
    REQUIRE(left.send(std::string(kMaxControlBytes, 'x')));

    const ControlMessage first = only(right);
    CHECK(first.bytes == "first");
    CHECK_FALSE(first.descriptors_lost);
    REQUIRE(first.descriptors.size() == 2);
    for (const UniqueFd& each : first.descriptors) {
        CHECK((::fcntl(each.get(), F_GETFD) & FD_CLOEXEC) != 0);
    }
    REQUIRE(::write(first.descriptors[1].get(), "!", 1) == 1);
    char byte = 0;
    CHECK(::read(read_end.get(), &byte, 1) == 1);
    CHECK(byte == '!');

    CHECK(only(right).bytes.size() == kMaxControlBytes);
    CHECK(nothing(right));
}

TEST_CASE("what is empty or over the limits is refused and not queued") {
    auto [left, right] = ControlSocket::make_pair();
    CHECK(left.send("").error().code == ErrorCode::too_large);
    CHECK(left.send(std::string(kMaxControlBytes + 1, 'x')).error().code == ErrorCode::too_large);
    const std::vector<int> many(kMaxControlDescriptors + 1, STDIN_FILENO);
    CHECK(left.send("x", many).error().code == ErrorCode::too_large);
    CHECK(left.queued() == 0);
    CHECK(nothing(right));
}

TEST_CASE("a peer that does not read: 64 wait, then overloaded; nothing is lost or reordered") {
    const auto before = open_descriptors();
    {
        auto [left, right] = ControlSocket::make_pair();
        const int sent = fill(left, 8000);
        CHECK(left.queued() == kMaxControlQueue);
        for (int i = 0; i < sent; ++i) {
            REQUIRE(only(right).bytes[0] == 'a' + i % 26);
            REQUIRE(left.flush());
        }
        CHECK(nothing(right));
        CHECK(left.queued() == 0);
    }
    CHECK(open_descriptors() == before);
}

TEST_CASE("queued descriptors arrive although the lender closed his") {
    auto [left, right] = ControlSocket::make_pair();
    while (left.queued() == 0) REQUIRE(left.send(std::string(8000, 'x')));
    {
        UniqueFd lent(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        REQUIRE(left.send("with", {lent.get()}));
    }
    for (;;) {
        ControlMessage got = only(right);
        REQUIRE(left.flush());
        if (got.bytes != "with") continue;
        CHECK(got.descriptors.size() == 1);
        break;
    }
}

TEST_CASE("the end of the peer is an empty message for the reader, an error for the writer") {
    auto [left, right] = ControlSocket::make_pair();
    REQUIRE(right.send("last words"));
    { const ControlSocket gone = std::move(right); }
    CHECK(only(left).bytes == "last words");
    CHECK(only(left).bytes.empty());
    CHECK(left.send("hello").error().code == ErrorCode::failed);
}

TEST_CASE("a descriptor that does not fit any more is a failed handover, not a crash") {
    auto [left, right] = ControlSocket::make_pair();
    REQUIRE(left.send("take this", {left.fd(), left.fd()}));
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
    const rlimit tight{static_cast<rlim_t>(::dup(0)), before.rlim_max};  // no number is left
    ::close(static_cast<int>(tight.rlim_cur));
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &tight) == 0);
    auto got = right.receive();
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
    REQUIRE(got);
    REQUIRE(*got);
    CHECK((**got).bytes == "take this");
    CHECK((**got).descriptors_lost);
    CHECK((**got).descriptors.empty());
}

TEST_CASE(
    "a peer's message over the limit is an error; too many descriptors are marked and closed") {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    ControlSocket reader{UniqueFd(ends[0])};
    const UniqueFd raw(ends[1]);

    const auto before = open_descriptors();
    iovec part{const_cast<char*>("x"), 1};
    constexpr std::size_t kMany = kMaxControlDescriptors * 4;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMany)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * kMany);
    for (std::size_t i = 0; i < kMany; ++i) {
        reinterpret_cast<int*>(CMSG_DATA(head))[i] = raw.get();
    }
    REQUIRE(::sendmsg(raw.get(), &message, 0) == 1);
    {
        const ControlMessage got = only(reader);
        CHECK(got.descriptors_lost);
        CHECK(got.descriptors.size() <= kMaxControlDescriptors);
    }
    CHECK(open_descriptors() == before);

    const std::string large(kMaxControlBytes + 1, 'x');
    REQUIRE(::send(raw.get(), large.data(), large.size(), 0) > 0);
    CHECK(reader.receive().error().code == ErrorCode::protocol);
}
