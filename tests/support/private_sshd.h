// A real sshd on loopback for tests, and an `ssh` on a PATH of its own that reads only the config
// here. Nothing outside its folder is read or changed. Owns the server; its end ends all
// connections.
//
// Hosts of the config: box (a plain account), and one for each login shell: bash zsh fish tcsh dash
// (the account's commands run through that shell). Their HOME is `home()`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shared/child_process.h"

namespace support {

class PrivateSshd {
  public:
    /// Throws std::runtime_error when it does not come up. `client_config` is put in front of the
    /// hosts, `server_config` after the server's own lines.
    explicit PrivateSshd(const std::filesystem::path& folder, const std::string& client_config = {},
                         const std::string& server_config = {});
    ~PrivateSshd();

    std::filesystem::path home() const { return folder_ / "home"; }
    std::vector<std::string> environment() const;  // for an agent
    /// Connections that were signed in so far.
    std::size_t sign_ins() const;
    /// Pid of the control master on that socket; 0 if there is none.
    static pid_t master_pid(const std::string& socket);
    /// The only socket in the folder of control sockets; empty if there is none.
    std::string control_socket() const;

  private:
    std::filesystem::path folder_;
    std::optional<shared::ChildProcess> server_;
};

}  // namespace support
