#include "shared/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

extern char** environ;

namespace shared {
namespace {

constexpr Milliseconds kAbandonedKill{2000};
constexpr Milliseconds kExecDeadline{3000};  // under a watchdog's patience: the caller may be the supervisor

Error spawn_error(const std::string& program, const char* what, int error) {
    return {ErrorCode::failed, program + ": " + what + ": " + std::strerror(error), {}};
}

int pidfd_open(pid_t pid) {
    return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

int pidfd_send_signal(int pidfd, int number) {
    return static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0));
}

/// Where execve finds `name` by the parent's PATH; decided before the fork.
std::string resolve(const std::string& name) {
    if (name.find('/') != name.npos) return name;
    const char* path = std::getenv("PATH");
    std::string rest = path ? path : "/usr/local/bin:/usr/bin:/bin";
    for (std::size_t at = 0; at <= rest.size();) {
        const std::size_t end = std::min(rest.find(':', at), rest.size());
        std::string folder = rest.substr(at, end - at);
        std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
        std::error_code code;
        if (::access(candidate.c_str(), X_OK) == 0 &&
            std::filesystem::is_regular_file(candidate, code)) {
            return candidate;
        }
        at = end + 1;
    }
    return {};
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> list;
    for (std::string& text : texts) list.push_back(text.data());
    list.push_back(nullptr);
    return list;
}

/// All that the child needs, made before the fork: after it only async-signal-safe calls are made.
struct ChildPlan {
    const char* program;
    char* const* argv;
    char* const* environment;
    const char* working_folder;              // or null
    std::vector<SpawnOptions::Pass> passes;  // fd: a duplicate above every target
    int failure_pipe;                        // above every target
    int highest_target;
    pid_t parent;
    bool dies_with_parent;
    bool own_session;
    bool own_process_group;
};

[[noreturn]] void child_failed(const ChildPlan& plan) {
    const int error = errno;
    (void)!::write(plan.failure_pipe, &error, sizeof error);
    ::_exit(127);
}

[[noreturn]] void run_child(const ChildPlan& plan) {
    if (plan.dies_with_parent) {
        if (::prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) child_failed(plan);
        if (::getppid() != plan.parent) ::_exit(127);  // it died before the line above
    }
    for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    if (plan.own_session) {
        ::setsid();
    } else if (plan.own_process_group) {
        ::setpgid(0, 0);
    }
    for (const auto& pass : plan.passes) {
        if (::dup2(pass.fd, pass.target) < 0) child_failed(plan);
    }
    // Everything above the targets but the pipe is closed by the kernel in two strokes.
    const unsigned pipe = static_cast<unsigned>(plan.failure_pipe);
    const unsigned first = static_cast<unsigned>(plan.highest_target) + 1;
    if (pipe > first) ::syscall(SYS_close_range, first, pipe - 1, 0);
    ::syscall(SYS_close_range, pipe + 1, ~0U, 0);
    for (int target = 3; target <= plan.highest_target; ++target) {
        bool wanted = false;
        for (const auto& pass : plan.passes) wanted = wanted || pass.target == target;
        if (!wanted) ::close(target);
    }
    if (plan.working_folder && ::chdir(plan.working_folder) < 0) child_failed(plan);
    ::execve(plan.program, plan.argv, plan.environment);
    child_failed(plan);
}

std::optional<ExitStatus> status_from(const siginfo_t& info) {
    if (info.si_pid == 0) return std::nullopt;
    return ExitStatus{info.si_code != CLD_EXITED, info.si_status};
}

bool wait_readable(int fd, Milliseconds patience) {
    const TimePoint deadline = Monotonic::now() + patience;
    for (;;) {
        const auto left =
            std::chrono::duration_cast<Milliseconds>(deadline - Monotonic::now()).count();
        pollfd waited{fd, POLLIN, 0};
        const int ready = ::poll(&waited, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
        if (ready > 0) return true;
        if (ready == 0) return false;
        if (errno != EINTR) return false;
    }
}

}  // namespace

std::string ExitStatus::text() const {
    if (!signalled) return "exit " + std::to_string(code);
    const char* name = ::sigdescr_np(code);
    return "signal " + std::to_string(code) + " (" + (name ? name : "unknown") + ")";
}

Result<ChildProcess> ChildProcess::spawn(const SpawnOptions& options) {
    ALBEDO_CHECK(!options.argv.empty());
    const std::string program = resolve(options.argv.front());
    if (program.empty()) {
        return Error{ErrorCode::failed, options.argv.front() + ": not found on PATH", {}};
    }

    std::vector<SpawnOptions::Pass> wanted = options.descriptors;
    UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null) return spawn_error(program, "/dev/null", errno);
    for (int standard = 0; standard < 3; ++standard) {
        const bool named = std::any_of(wanted.begin(), wanted.end(),
                                       [&](const auto& pass) { return pass.target == standard; });
        if (!named) wanted.push_back({null.get(), standard});
    }
    int highest = 2;
    for (const auto& pass : wanted) highest = std::max(highest, pass.target);

    // Duplicates above all targets, so that no dup2 in the child overwrites a source.
    std::vector<UniqueFd> lifted;
    for (auto& pass : wanted) {
        lifted.emplace_back(::fcntl(pass.fd, F_DUPFD_CLOEXEC, highest + 1));
        if (!lifted.back()) return spawn_error(program, "dup", errno);
        pass.fd = lifted.back().get();
    }
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) < 0) return spawn_error(program, "pipe", errno);
    UniqueFd failure_read(ends[0]);
    UniqueFd low_write(ends[1]);
    UniqueFd failure_write(::fcntl(low_write.get(), F_DUPFD_CLOEXEC, highest + 1));
    if (!failure_write) return spawn_error(program, "dup", errno);
    low_write.reset();

    std::vector<std::string> argv = options.argv;
    std::vector<std::string> environment = options.environment.value_or(std::vector<std::string>{});
    const std::vector<char*> argv_list = pointers(argv);
    const std::vector<char*> environment_list = pointers(environment);
    const ChildPlan plan{
        program.c_str(),
        argv_list.data(),
        options.environment ? environment_list.data() : environ,
        options.working_folder.empty() ? nullptr : options.working_folder.c_str(),
        wanted,
        failure_write.get(),
        highest,
        ::getpid(),
        options.dies_with_parent,
        options.own_session,
        options.own_process_group,
    };

    // Signals stay blocked until the child has reset its dispositions: a handler of ours must not
    // run there.
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t pid = ::fork();
    if (pid == 0) run_child(plan);
    const int fork_error = errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) return spawn_error(program, "fork", fork_error);

    ChildProcess child(pid, UniqueFd(pidfd_open(pid)));
    if (!child.pidfd_) return spawn_error(program, "pidfd_open", errno);
    failure_write.reset();
    // A program on a file server that hangs, or a child that was stopped this early.
    if (!wait_readable(failure_read.get(), kExecDeadline))
        return Error{ErrorCode::timed_out,
                     program + ": cannot start: it did not begin within " +
                         std::to_string(kExecDeadline.count()) + " ms",
                     {}};
    int error = 0;
    ssize_t got;
    do {
        got = ::read(failure_read.get(), &error, sizeof error);
    } while (got < 0 && errno == EINTR);
    if (got == sizeof error) return spawn_error(program, "cannot start", error);
    return child;
}

ChildProcess::ChildProcess(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      status_(std::exchange(other.status_, std::nullopt)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
    if (this != &other) {
        abandon();
        pid_ = std::exchange(other.pid_, -1);
        pidfd_ = std::move(other.pidfd_);
        status_ = std::exchange(other.status_, std::nullopt);
    }
    return *this;
}

ChildProcess::~ChildProcess() {
    abandon();
}

void ChildProcess::abandon() noexcept {
    if (pid_ < 0 || status_) return;
    if (!pidfd_) {  // pidfd_open failed right after the fork: the pid cannot be reused before a
                    // wait
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        return;
    }
    signal(SIGKILL);
    if (wait_readable(pidfd_.get(), kAbandonedKill)) (void)try_reap();
}

std::optional<ExitStatus> ChildProcess::try_reap() {
    if (status_ || pid_ < 0) return status_;
    siginfo_t info{};
    if (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG) == 0) {
        status_ = status_from(info);
    }
    return status_;
}

bool ChildProcess::signal(int number) {
    return !status_ && pidfd_ && pidfd_send_signal(pidfd_.get(), number) == 0;
}

ExitStatus ChildProcess::end(const EndPlan& plan) {
    EndSteps steps(plan, Monotonic::now());
    for (;;) {
        if (auto status = try_reap()) return *status;
        const EndSteps::Step step = steps.at(Monotonic::now());
        if (step.signal) signal(*step.signal);
        if (!step.next) return {true, SIGKILL};  // unkillable: the caller can do no more
        const auto patience = std::chrono::ceil<Milliseconds>(*step.next - Monotonic::now());
        wait_readable(pidfd_.get(), std::max(patience, Milliseconds(0)));
    }
}

EndSteps::EndSteps(const EndPlan& plan, TimePoint asked_at) : plan_(plan), asked_at_(asked_at) {}

EndSteps::Step EndSteps::at(TimePoint now) {
    const TimePoint terminate_at = asked_at_ + plan_.ask;
    const TimePoint kill_at = terminate_at + plan_.terminate;
    const TimePoint give_up_at = kill_at + plan_.kill;
    Step step;
    if (now >= give_up_at && sent_ == SIGKILL) return step;
    if (now >= kill_at) {
        if (sent_ != SIGKILL) step.signal = sent_ = SIGKILL;
        step.next = std::max(give_up_at, now + Milliseconds(1));
    } else if (now >= terminate_at) {
        if (sent_ == 0) step.signal = sent_ = plan_.terminate_signal;
        step.next = kill_at;
    } else {
        step.next = terminate_at;
    }
    return step;
}

std::string sibling_program(const std::string& name) {
    return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

}  // namespace shared
