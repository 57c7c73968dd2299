// What the supervisor and its children say to each other over their control sockets (SOCK_SEQPACKET
// at descriptor kControlFd): one datagram, one message, descriptors riding along by SCM_RIGHTS in
// the order named here. At most kMaxControlBytes a message. Sending never blocks.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace shared {

inline constexpr int kControlFd = 3;
inline constexpr std::size_t kMaxControlBytes = 64 * 1024;
inline constexpr std::size_t kMaxControlDescriptors = 4;
inline constexpr const char* kLocalHost = "local";  // the agent with nothing in place of ssh

// --- supervisor to child ------------------------------------------------------------------------

/// First message to every child. Descriptors: process page; for the api also the listening socket.
struct Welcome {
    std::string home;   // $ALBEDO_HOME, absolute
    std::string host;   // the agent's host; empty for the api
    std::string token;  // the bearer token; for the api only
    std::string owner;  // random per supervisor run; names this daemon to kernels
    std::uint16_t port = 0;
    std::int64_t started_wall_ms = 0;
};

/// A channel between the api and the agent of `host`, handed to both.
/// Descriptors: memory, own wake, peer wake.
struct ChannelOffer {
    std::string host;
    std::uint64_t generation = 0;
};

/// To the api: that host's agent ended; a new channel follows when it is up again.
struct AgentDown {
    std::string host;
    std::uint64_t generation = 0;
    std::string cause;    // "signal 9 (Killed)", "hung", "stopped by an operator"
    bool failed = false;  // no restart by itself until an operator asks or 5 minutes passed
};

/// Finish what runs within 5 s; take nothing new. The supervisor closes the socket to end it hard.
struct Drain {};

struct ProcessInfo {
    std::string name;  // "supervisor", "api", "agent"
    std::string host;
    std::int32_t pid = 0;
    std::string state;  // "starting", "up", "ending", "waiting", "failed", "stopped", "quarantined"
    std::int64_t since_wall_ms = 0;
    std::uint32_t restarts = 0;
    std::uint64_t generation = 0;
    std::string last_death;  // cause of the newest death; empty if none
    std::int64_t last_death_wall_ms = 0;
    std::int64_t beat_age_ms = 0;
    std::vector<std::int64_t> counters;  // by shared::Counter
};

/// Answer to AskProcesses, in as many messages as needed; `more` is false in the last.
struct Processes {
    std::uint64_t call = 0;
    std::vector<ProcessInfo> processes;
    bool more = false;
};

/// Answer to AskFlight: the newest events of an agent's flight recorder, oldest first.
struct Flight {
    std::uint64_t call = 0;
    std::vector<std::int64_t> wall_ms;
    std::vector<std::string> texts;
    bool more = false;
};

/// Answer to SteerHost.
struct Steered {
    std::uint64_t call = 0;
    bool ok = false;
    std::string message;
};

using ToChild = std::variant<Welcome, ChannelOffer, AgentDown, Drain, Processes, Flight, Steered>;

// --- child to supervisor ------------------------------------------------------------------------

/// This child can be used: the api serves HTTP, an agent takes calls.
struct Ready {};

/// From the api: have an agent for this host, now. No answer but the ChannelOffer.
struct WantHost {
    std::string host;
};

enum class Steering : std::uint8_t { restart, stop, quarantine, release, kill };
/// From the api, for an operator. `kill` is SIGKILL without notice, for stress and chaos.
struct SteerHost {
    std::uint64_t call = 0;
    std::string host;
    Steering steering = Steering::restart;
};

struct AskProcesses {
    std::uint64_t call = 0;
};
struct AskFlight {
    std::uint64_t call = 0;
    std::string host;
};

/// From the api: the user asked the whole daemon to stop.
struct WantShutdown {};

/// A handover came without its descriptors (MSG_CTRUNC): make the channel again.
struct HandoverFailed {
    std::string host;
    std::uint64_t generation = 0;
};

/// From the api: environment variables that hold keys; agents started from now on do not get them.
struct HideVariables {
    std::vector<std::string> names;
};

using FromChild = std::variant<Ready, WantHost, SteerHost, AskProcesses, AskFlight, WantShutdown,
                               HandoverFailed, HideVariables>;

}  // namespace shared
