#include "supervisor/home.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "supervisor/timing.h"

namespace supervisor {

using shared::Error;
using shared::ErrorCode;
using shared::Monotonic;
using shared::Result;

namespace {

constexpr shared::Milliseconds kLockRetry{20};  // flock(2) has no wait with a deadline

}  // namespace

Home::Home(shared::HomeLayout layout, shared::HomeLock lock)
    : layout_(std::move(layout)), lock_(std::move(lock)) {}

Result<std::optional<Home>> Home::take(const std::filesystem::path& home,
                                       shared::Milliseconds patience) {
    shared::HomeLayout layout(home);
    if (auto made = shared::make_home(home); !made) return made.error();
    const auto deadline = Monotonic::now() + patience;
    while (true) {
        auto lock = shared::HomeLock::try_take(home);
        if (!lock) return lock.error();
        if (*lock) {
            Home result(std::move(layout), std::move(**lock));
            result.withdraw();
            return std::optional<Home>(std::move(result));
        }
        if (Monotonic::now() >= deadline) return std::optional<Home>{};
        std::this_thread::sleep_for(kLockRetry);
    }
}

Result<void> Home::publish(std::uint16_t port, const std::string& token,
                           std::int64_t started_wall_ms) const {
    shared::DaemonRecord record;
    record.pid = getpid();
    record.port = port;
    record.token = token;
    record.version = ALBEDO_VERSION;
    record.started_wall_ms = started_wall_ms;
    return shared::write_daemon_record(layout_.root(), record);
}

void Home::withdraw() const noexcept {
    unlink(layout_.record_file().c_str());
}

Result<void> Listener::open() {
    if (socket_) return {};
    shared::UniqueFd made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    socklen_t length = sizeof address;
    // Connections of the listener before this one may linger; they are no reason to lose the port.
    const bool opened =
        made && setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        listen(made.get(), kListenBacklog) == 0 &&
        getsockname(made.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0;
    if (!opened) {
        return Error{ErrorCode::failed,
                     "cannot listen on 127.0.0.1 port " + std::to_string(port_) + ": " +
                         std::strerror(errno),
                     {}};
    }
    port_ = ntohs(address.sin_port);
    socket_ = std::move(made);
    return {};
}

}  // namespace supervisor
