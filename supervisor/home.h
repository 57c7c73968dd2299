// What the supervisor holds of $ALBEDO_HOME and of the machine for its whole life: the home lock,
// daemon.json, the listening socket. It knows nothing of children.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "shared/clock.h"
#include "shared/home.h"
#include "shared/result.h"
#include "shared/unique_fd.h"

namespace supervisor {

/// Owns the lock. Whoever holds it is the daemon of that home.
class Home {
  public:
    /// Makes the home (0700), takes the lock within `patience`, and removes the daemon.json of a
    /// predecessor that was killed. Blocks; for main, before the loop. Nothing: another daemon
    /// holds the home. Errors: storage, in words for a person.
    static shared::Result<std::optional<Home>> take(const std::filesystem::path& home,
                                                    shared::Milliseconds patience);

    const shared::HomeLayout& layout() const { return layout_; }
    /// Says where the daemon is; 0600, by write-then-rename. Errors: storage.
    shared::Result<void> publish(std::uint16_t port, const std::string& token,
                                 std::int64_t started_wall_ms) const;
    void withdraw() const noexcept;

  private:
    Home(shared::HomeLayout layout, shared::HomeLock lock);
    shared::HomeLayout layout_;
    shared::HomeLock lock_;
};

/// The listening socket on 127.0.0.1, lent to each api. Once it has a port it keeps that port.
class Listener {
  public:
    explicit Listener(std::uint16_t port) : port_(port) {}
    /// Errors: failed, naming the port.
    shared::Result<void> open();
    void close() { socket_.reset(); }
    int fd() const { return socket_.get(); }
    std::uint16_t port() const { return port_; }

  private:
    std::uint16_t port_;
    shared::UniqueFd socket_;
};

}  // namespace supervisor
