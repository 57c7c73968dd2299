#include "hostagent/ssh_master.h"

#include <sys/stat.h>

#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstdint>

namespace hostagent {

namespace {

using Socket = asio::local::stream_protocol::socket;
constexpr std::uint32_t kHello = 1;
constexpr std::uint32_t kVersion = 4;
constexpr std::uint32_t kTerminate = 0x10000005;

/// Length, type and one number: all that is said here.
std::array<unsigned char, 12> packet(std::uint32_t type, std::uint32_t number) {
    std::array<unsigned char, 12> bytes{};
    const std::uint32_t fields[3] = {8, type, number};
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<unsigned char>(fields[i / 4] >> (24 - 8 * (i % 4)));
    return bytes;
}

/// Connected and greeted, or what is wrong.
asio::awaitable<MasterState> greet(Socket& socket, const std::string& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode))
        co_return MasterState::absent;
    bool late = false;
    const Alarm alarm(socket.get_executor(), shared::Monotonic::now() + kMasterAnswers, [&] {
        late = true;
        boost::system::error_code ignored;
        socket.close(ignored);
    });
    const auto [refused] =
        co_await socket.async_connect(asio::local::stream_protocol::endpoint(path), kByTuple);
    if (refused) co_return late ? MasterState::stuck : MasterState::absent;
    const auto hello = packet(kHello, kVersion);
    co_await asio::async_write(socket, asio::buffer(hello), kByTuple);
    std::array<unsigned char, 12> answer;
    const auto [error, got] = co_await asio::async_read(socket, asio::buffer(answer), kByTuple);
    if (error) co_return late ? MasterState::stuck : MasterState::absent;
    co_return MasterState::answers;
}

}  // namespace

asio::awaitable<MasterState> ask_master(std::string socket_path) {
    Socket socket(co_await asio::this_coro::executor);
    co_return co_await greet(socket, socket_path);
}

asio::awaitable<void> end_master(std::string socket_path) {
    Socket socket(co_await asio::this_coro::executor);
    if (co_await greet(socket, socket_path) != MasterState::answers) co_return;
    const auto request = packet(kTerminate, 1);
    co_await asio::async_write(socket, asio::buffer(request), kByTuple);
    // It unlinks its socket before it answers; an answer or an end says that it did.
    const Alarm alarm(socket.get_executor(), shared::Monotonic::now() + kMasterAnswers, [&] {
        boost::system::error_code ignored;
        socket.close(ignored);
    });
    std::array<unsigned char, 64> answer;
    co_await socket.async_read_some(asio::buffer(answer), kByTuple);
}

}  // namespace hostagent
