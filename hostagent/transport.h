// What stands in front of a command that is to run in a place: ssh and its options, or nothing.
//
// A new kind of place (a container, a job of a scheduler) is one more class here. A transport knows
// how to get there and what its failures mean; it must not know what the commands do.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "hostagent/command.h"
#include "hostagent/command_line.h"
#include "hostagent/ssh_failure.h"

namespace hostagent {

/// How a command may get there.
enum class Way {
    usual,  // over the connection that is there, making it if need be
    fresh,  // at once, with what is known: nothing is asked before, nothing is retried
};

/// What is to be spawned, and what it rides on.
struct Launch {
    std::vector<std::string> argv;
    bool rides_only = false;  // it fails at once when the shared connection is not there
};

class Transport {
  public:
    virtual ~Transport() = default;

    /// argv, here, of `words`, there. May take as long as kPrepare.
    virtual asio::awaitable<Launch> launch(Words words, Way way) = 0;
    /// The verdict on a command whose marker did not come because of the way there; nothing if the
    /// place was reached and the command itself failed.
    virtual std::optional<Verdict> failure(const Outcome& outcome) const = 0;
    /// Whether the same command may be tried once more at once, by another connection.
    virtual bool another_way(const Launch& launch, const Outcome& outcome) = 0;
    /// A command of this host came through.
    virtual asio::awaitable<void> worked() = 0;
    /// The connection that commands share is not to be believed any more (a dead network).
    virtual asio::awaitable<void> abandon() = 0;
    /// The daemon ends: ends what this transport left running for the next command.
    virtual asio::awaitable<void> stop() = 0;
    /// Whether a person seems to have changed something since the last failed sign-in.
    virtual bool sign_in_changed() = 0;

    /// The socket of the shared connection, %C unexpanded; empty if there is no such thing.
    virtual std::string control_path() const { return {}; }
    /// What a person should know about the way taken ("the control connection does not answer").
    virtual std::string note() const { return {}; }
    /// The words that find `python3` as the user's own terminal there would.
    virtual Words find_python(const std::string& marker) const = 0;
    /// The interpreter for commands after the probe told its path.
    virtual std::string python(const std::string& found) const { return found; }
    virtual bool is_local() const { return false; }
};

inline constexpr shared::Milliseconds kPrepare{3000};

std::unique_ptr<Transport> local_transport();
std::unique_ptr<Transport> ssh_transport(std::string host, std::filesystem::path albedo_home);

}  // namespace hostagent
