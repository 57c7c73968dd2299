// What the api and a hostagent say to each other over their channel. The one place where the two
// meet: neither includes anything else of the other's.
//
// Rules: the api asks, the agent answers each call once, by its correlation id, or never if the
// agent died (the api then ends the call). `deadline_ms` is CLOCK_MONOTONIC milliseconds; when it
// has passed the caller was answered already, and the agent may stop.
// JSON and frame payloads are carried unread. Everything from an agent is untrusted input.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "shared/result.h"

namespace shared {

/// The last verdict about a host. It stays while the host is looked at again.
enum class HostState : std::uint8_t { unknown, ready, needs_auth, unreachable, unsupported };
/// What is going on towards the host right now.
enum class HostStep : std::uint8_t { none, connecting, probing, staging, starting };
const char* to_string(HostState state);
const char* to_string(HostStep step);  // "" for none

/// What is known of a host. Kept by the api in its store and sent back to a new agent as a hint.
struct HostReport {
    HostState state = HostState::unknown;
    HostStep step = HostStep::none;
    std::string detail;    // ssh's or the host's own last meaningful words
    std::string os, arch;  // as uname says: "Linux", "x86_64"
    std::string home;      // $HOME as the host spells it
    std::string hostname;  // what the host calls itself
    std::string user;      // who we are there
    std::string python;    // absolute path of the interpreter in use
    std::string python_version;
    std::string digest;        // of the bundle staged there; empty if none
    std::string control_path;  // with %C unexpanded, for a person's own `ssh -M`
    std::int64_t checked_wall_ms = 0;
};

// --- api to agent -------------------------------------------------------------------------------

/// First on every channel: what the api remembers of this host. No answer.
struct Configure {
    HostReport known;    // state unknown when never seen
    std::string python;  // interpreter a person chose for this host; empty: the login one
};

/// Asks for a verdict. A cached one serves (ready 60 s, failures 5 s) unless `fresh`; a caller
/// beside a running probe joins it. Answer: HostReport.
struct Probe {
    std::uint64_t call = 0;
    std::int64_t deadline_ms = 0;
    bool fresh = false;
};

/// Attaches to a kernel, starting it first if `start`. `kernel` is a number the api gives each
/// attempt, never used twice on one channel. `request` is the bridge's JSON (docs/PROTOCOL.md,
/// "open" and "start"). Answered by KernelOpened or KernelClosed of that number, then frames.
struct OpenKernel {
    std::uint32_t kernel = 0;
    bool start = false;
    std::string request;
};

struct CloseKernel {
    std::uint32_t kernel = 0;
};

/// One frame of the link, either way (docs/PROTOCOL.md). Payload unread.
struct KernelFrame {
    std::uint32_t kernel = 0;
    std::uint8_t kind = 0;
    std::uint64_t seq = 0;
    std::uint64_t ack = 0;
    std::string payload;
};

/// Ends all processes of a run directory by the ladder, on their host, and removes the directory.
/// Answer: JSON {"gone": [...], "survived": [...]}; error `gone` when there was no such directory.
struct EndKernel {
    std::uint64_t call = 0;
    std::int64_t deadline_ms = 0;
    std::string run;  // the run directory, absolute on the host
};

/// A question about folders: JSON for albedo_browse.py (docs/PROTOCOL.md, "browse"). `fresh`: over
/// a command of its own, past every cache and open bridge, without retry. Answer: its JSON.
struct Browse {
    std::uint64_t call = 0;
    std::int64_t deadline_ms = 0;
    bool fresh = false;
    std::string request;
};

/// The caller of that call is gone. No answer; the call's own answer may still come.
struct Cancel {
    std::uint64_t call = 0;
};

/// Asks the agent itself, touching no host: answered at once. Answer: JSON
/// {"pid", "state", "bridge_pid", "kernels", "uptime_ms", "ssh_ms"?}.
struct Ping {
    std::uint64_t call = 0;
    std::int64_t deadline_ms = 0;
};

/// What a stress test asks an agent to suffer. The order is on the wire.
enum class FaultKind : std::uint8_t {
    bridge,  // the connection to the bridge is cut
    ssh,     // a control master of ours is ended, and the bridge with it
    stop,    // the agent stops itself as by SIGSTOP: only the watchdog helps
    spin,    // its loop never comes round again: only the watchdog helps
};
inline constexpr const char* kFaultNames[] = {"bridge", "ssh", "stop", "spin"};

/// Answered with {} just before it is done.
struct Fault {
    std::uint64_t call = 0;
    std::int64_t deadline_ms = 0;
    FaultKind kind = FaultKind::bridge;
};

using ToAgent = std::variant<Configure, Probe, OpenKernel, CloseKernel, KernelFrame, EndKernel,
                             Browse, Cancel, Ping, Fault>;

// --- agent to api -------------------------------------------------------------------------------

/// The end of a call: JSON or nothing, or the failure.
struct Answer {
    std::uint64_t call = 0;
    bool ok = false;
    ErrorCode code = ErrorCode::failed;  // when not ok
    std::string message;                 // when not ok
    std::string json;                    // when ok
    HostReport report;                   // for Probe; for others the state at the time of failure
};

/// Told at every change of state or step, so that the api can show it without asking.
struct HostChanged {
    HostReport report;
};

struct KernelOpened {
    std::uint32_t kernel = 0;
    std::string run;  // the run directory, absolute on the host
};

/// Why an attachment ended or never came to be.
enum class CloseReason : std::uint8_t {
    dropped,      // the connection broke; the kernel may well live: attach again
    unreachable,  // the host could not be reached; as above, with ssh's words
    needs_auth,   // a person has to sign in first
    unsupported,  // the host cannot run kernels as it is
    no_folder,    // a kernel was to be started in a folder that is not there
    gone,         // the host says that this kernel is not there any more
    elsewhere,    // the run directory belongs to another machine of a shared home
    overflow,     // the kernel did not read what was sent to it
    failed,       // it did not start; detail says why
};
const char* to_string(CloseReason reason);

struct KernelClosed {
    std::uint32_t kernel = 0;
    CloseReason reason = CloseReason::dropped;
    std::string detail;
};

using FromAgent = std::variant<Answer, HostChanged, KernelOpened, KernelClosed, KernelFrame>;

}  // namespace shared
