// Child processes of the agent as the loop sees them: three pipes and an end.
//
// PipedProcess owns one child and its pipes. run_command() runs one to its end and gives its
// answer. Neither knows what runs: ssh or a local program.
//
// An answer counts when the process has exited, plus kPipeGrace for what is still in the pipe: an
// ssh that left its master in the background may keep the pipes open for minutes.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hostagent/event.h"
#include "shared/child_process.h"

namespace hostagent {

inline constexpr shared::Milliseconds kPipeGrace{200};
inline constexpr std::size_t kMaxAnswerBytes = 9u << 20;  // a listing within one frame's limit
inline constexpr std::size_t kKeptWords = 8192;           // of stderr: the newest so many bytes

/// Keeps the newest kKeptWords bytes of a stream of words.
void keep_words(std::string& kept, std::string_view more);

class PipedProcess {
  public:
    using Descriptor = asio::posix::stream_descriptor;

    /// Errors: failed, in words (no such program).
    static shared::Result<std::unique_ptr<PipedProcess>> start(
        const asio::any_io_executor& executor, const std::vector<std::string>& argv,
        const std::vector<std::string>& more_environment = {});

    shared::ChildProcess child;
    Descriptor ended;  // readable when the child has ended
    Descriptor in;     // its stdin
    Descriptor out;
    Descriptor err;

    /// Waits for the end; after `deadline` the child is killed first.
    asio::awaitable<shared::ExitStatus> end_by(shared::TimePoint deadline);

  private:
    PipedProcess(const asio::any_io_executor& executor, shared::ChildProcess child_process,
                 int in_fd, int out_fd, int err_fd);
};

struct Command {
    std::vector<std::string> argv;
    std::string marker;  // the line that opens the answer; empty: everything is answer
    std::string input;   // goes to stdin once the marker was read, never before
    shared::TimePoint deadline;
};

struct Outcome {
    bool started = false;    // false: `words` say why there is no process
    bool marked = false;     // the marker came
    bool timed_out = false;  // killed at the deadline
    shared::ExitStatus status;
    std::string answer;  // stdout after the marker
    std::string noise;   // stdout before it, its newest bytes
    std::string words;   // stderr, its newest bytes

    bool clean() const { return started && marked && !timed_out && status.clean(); }
};

asio::awaitable<Outcome> run_command(Command command);

}  // namespace hostagent
