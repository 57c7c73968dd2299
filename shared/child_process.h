// A child process and how it ends. The only place where this project forks.
//
// spawn(): fork, then in the child PR_SET_PDEATHSIG (if asked), getppid() compared with the pid
// taken before the fork, an empty signal mask, every disposition reset to default, descriptors
// moved into place, all others closed, execve. The caller must be the process's main thread when
// `dies_with_parent` is set: Linux ties that signal to the spawning thread.
//
// "Spawned" is not "ready": ready is what the child itself says on its own channel.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "shared/clock.h"
#include "shared/result.h"
#include "shared/unique_fd.h"

namespace shared {

/// How a process ended.
struct ExitStatus {
    bool signalled = false;
    int code = 0;  // the exit code, or the signal's number
    bool clean() const { return !signalled && code == 0; }
    std::string text() const;  // "exit 3", "signal 9 (Killed)"
};

struct SpawnOptions {
    std::vector<std::string> argv;  // argv[0] is looked up on PATH when it has no slash
    std::optional<std::vector<std::string>> environment;  // "NAME=value"; absent: inherited
    std::string working_folder;                           // empty: inherited
    /// Descriptors the child gets, each at the given number (0-2 for the standard ones; a standard
    /// one not named is /dev/null). All other descriptors are closed in the child.
    struct Pass {
        int fd;      // lent: the caller's stays open
        int target;  // its number in the child
    };
    std::vector<Pass> descriptors;
    bool dies_with_parent = true;    // SIGKILL when the spawning thread ends
    bool own_session = false;        // setsid()
    bool own_process_group = false;  // setpgid(0, 0), implied by own_session
};

/// The steps by which an owner ends a child; each step has its own deadline. Closing the child's
/// stdin ("ask") is the owner's matter and happens before; kill is always the last step.
struct EndPlan {
    Milliseconds ask{0};        // wait this long after having asked
    Milliseconds terminate{0};  // then SIGTERM and wait this long; 0 skips the step
    Milliseconds kill{2000};    // then SIGKILL and wait this long for the kernel to reap it
    int terminate_signal = 15;
};

class ChildProcess {
  public:
    /// Errors: failed, with the words of errno and the program's name. An execve that fails is
    /// reported here too (through a close-on-exec pipe), never as an exit code. timed_out: it did not
    /// come to its execve within 3 s; it is killed.
    static Result<ChildProcess> spawn(const SpawnOptions& options);

    ChildProcess(ChildProcess&&) noexcept;
    ChildProcess& operator=(ChildProcess&&) noexcept;
    /// A child still running is killed and reaped (SIGKILL, at most 2 s).
    ~ChildProcess();

    pid_t pid() const { return pid_; }
    /// Readable when the child has ended. Lent.
    int pidfd() const { return pidfd_.get(); }
    /// Reaps without waiting; the status stays available afterwards.
    std::optional<ExitStatus> try_reap();
    /// Sends through the pidfd, so never to a stranger; false when the child is gone.
    bool signal(int number);
    /// Blocks through the plan and reaps. For loops use `EndSteps` and timers instead.
    ExitStatus end(const EndPlan& plan);
    /// Gives the child up to init: it lives on after this process. For the daemon alone, which the
    /// CLI starts and leaves.
    pid_t detach() {
        pidfd_.reset();
        return std::exchange(pid_, -1);
    }

  private:
    ChildProcess(pid_t pid, UniqueFd pidfd);
    void abandon() noexcept;
    pid_t pid_ = -1;
    UniqueFd pidfd_;
    std::optional<ExitStatus> status_;
};

/// The same plan as a pure machine for a loop: what to do at `now`, and when to ask again.
class EndSteps {
  public:
    EndSteps(const EndPlan& plan, TimePoint asked_at);
    struct Step {
        std::optional<int> signal;      // to send now
        std::optional<TimePoint> next;  // when to call again; absent: given up, log it
    };
    Step at(TimePoint now);

  private:
    EndPlan plan_;
    TimePoint asked_at_;
    int sent_ = 0;
};

/// The path of a program of ours, which stands beside the running one: build/bin or PREFIX/bin.
/// Throws std::system_error when /proc/self/exe cannot be read.
std::string sibling_program(const std::string& name);

}  // namespace shared
