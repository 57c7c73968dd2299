// The argv of one ssh process. Pure.
//
// Every option is `-o NAME=value`, two words, which any stand-in for ssh can read; the target comes
// after `--`, the remote command is one word. What the user's config would make unfit for a program
// (forced terminals, RemoteCommand, forwardings, going to the background) is overridden; everything
// that makes the connection what it is (keys, jumps, ports, names) stays the user's.
#pragma once

#include <string>
#include <vector>

namespace hostagent {

/// How a command gets its connection.
enum class Ride {
    master,  // shares the control connection, making it if there is none
    only,    // shares it or fails at once; signs in to nothing
    alone,   // a whole connection of its own, past every control connection
};

struct SshOptions {
    std::string host;  // as the user writes it: alias, user@host, an IPv6 address in brackets
    Ride ride = Ride::master;
    std::string control_path;     // may hold %C
    std::string persist = "600";  // how long the master stays without riders
    bool keep_alives = true;      // ours; false when the user has some
};

/// How long a lost network goes unnoticed at most: the interval times the count.
inline constexpr int kKeepAliveSeconds = 15;
inline constexpr int kKeepAliveCount = 3;

/// The host without what only a location needs: the brackets of an IPv6 address.
std::string ssh_target(const std::string& host);

std::vector<std::string> ssh_argv(const SshOptions& options, const std::string& remote_line);

/// `ssh -G` as the user would run it: what their config says, without any option of ours.
std::vector<std::string> ssh_question(const std::string& host);

/// `ssh -G` with our control path: tells what its %C stands for.
std::vector<std::string> ssh_question(const std::string& host, const std::string& control_path);

}  // namespace hostagent
