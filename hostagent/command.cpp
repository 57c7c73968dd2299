#include "hostagent/command.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/write.hpp>
#include <cstring>

#include "hostagent/marker.h"

namespace hostagent {

using shared::ChildProcess;
using shared::Error;
using shared::ErrorCode;
using shared::ExitStatus;
using shared::Result;
using shared::UniqueFd;

namespace {

struct Pipe {
    UniqueFd read_end;
    UniqueFd write_end;
};

Pipe make_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        throw std::system_error(errno, std::generic_category(), "pipe");
    return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

int duplicate(int fd) {
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) throw std::system_error(errno, std::generic_category(), "dup");
    return copy;
}

std::vector<std::string> environment_with(const std::vector<std::string>& more) {
    std::vector<std::string> all;
    for (char** entry = environ; *entry; ++entry) all.emplace_back(*entry);
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

/// What the readers and the writer of one command share with the coroutine that waits for it.
struct Run {
    Run(const asio::any_io_executor& executor, Command what)
        : command(std::move(what)), marker(command.marker), event(executor) {}

    Command command;
    std::unique_ptr<PipedProcess> process;
    MarkerScanner marker;
    Outcome outcome;
    Event event;
    int open_streams = 2;
    bool too_much = false;
};

asio::awaitable<void> write_input(std::shared_ptr<Run> run) {
    // An end that reads nothing (EPIPE) still has its answer or its exit: no fault here.
    co_await asio::async_write(run->process->in, asio::buffer(run->command.input), kByTuple);
    boost::system::error_code ignored;
    run->process->in.close(ignored);
}

asio::awaitable<void> read_answer(std::shared_ptr<Run> run) {
    std::array<char, 16384> piece;
    for (;;) {
        const auto [error, got] =
            co_await run->process->out.async_read_some(asio::buffer(piece), kByTuple);
        if (error) break;
        std::string_view bytes(piece.data(), got);
        if (!run->outcome.marked) {
            const auto rest = run->marker.feed(bytes);
            if (!rest) continue;
            run->outcome.marked = true;
            asio::co_spawn(run->process->in.get_executor(), write_input(run), asio::detached);
            run->outcome.answer += *rest;
            continue;
        }
        if (run->outcome.answer.size() + got > kMaxAnswerBytes) {
            run->too_much = true;
            break;
        }
        run->outcome.answer += bytes;
    }
    --run->open_streams;
    run->event.notify();
}

asio::awaitable<void> read_words(std::shared_ptr<Run> run) {
    std::array<char, 4096> piece;
    for (;;) {
        const auto [error, got] =
            co_await run->process->err.async_read_some(asio::buffer(piece), kByTuple);
        if (error) break;
        keep_words(run->outcome.words, std::string_view(piece.data(), got));
    }
    --run->open_streams;
    run->event.notify();
}

}  // namespace

void keep_words(std::string& kept, std::string_view more) {
    if (more.size() > kKeptWords) more.remove_prefix(more.size() - kKeptWords);
    kept += more;
    if (kept.size() > kKeptWords) kept.erase(0, kept.size() - kKeptWords);
}

PipedProcess::PipedProcess(const asio::any_io_executor& executor, ChildProcess child_process,
                           int in_fd, int out_fd, int err_fd)
    : child(std::move(child_process)),
      ended(executor, duplicate(child.pidfd())),
      in(executor, in_fd),
      out(executor, out_fd),
      err(executor, err_fd) {}

Result<std::unique_ptr<PipedProcess>> PipedProcess::start(
    const asio::any_io_executor& executor, const std::vector<std::string>& argv,
    const std::vector<std::string>& more_environment) {
    Pipe in = make_pipe();
    Pipe out = make_pipe();
    Pipe err = make_pipe();
    shared::SpawnOptions options;
    options.argv = argv;
    if (!more_environment.empty()) options.environment = environment_with(more_environment);
    options.descriptors = {
        {in.read_end.get(), 0}, {out.write_end.get(), 1}, {err.write_end.get(), 2}};
    options.own_process_group = true;
    auto child = ChildProcess::spawn(options);
    if (!child) return std::move(child).error();
    return std::unique_ptr<PipedProcess>(
        new PipedProcess(executor, std::move(*child), in.write_end.release(),
                         out.read_end.release(), err.read_end.release()));
}

asio::awaitable<ExitStatus> PipedProcess::end_by(shared::TimePoint deadline) {
    const Alarm alarm(ended.get_executor(), deadline, [this] { child.signal(SIGKILL); });
    for (;;) {
        if (auto status = child.try_reap()) co_return *status;
        const auto [error] = co_await ended.async_wait(Descriptor::wait_read, kByTuple);
        if (error) co_return ExitStatus{true, SIGKILL};
    }
}

asio::awaitable<Outcome> run_command(Command command) {
    const auto executor = co_await asio::this_coro::executor;
    auto run = std::make_shared<Run>(executor, std::move(command));
    auto process = PipedProcess::start(executor, run->command.argv);
    if (!process) {
        run->outcome.words = process.error().message;
        co_return std::move(run->outcome);
    }
    run->process = std::move(*process);
    run->outcome.started = true;
    if (run->command.marker.empty()) {
        run->outcome.marked = true;
        asio::co_spawn(executor, write_input(run), asio::detached);
    }
    asio::co_spawn(executor, read_answer(run), asio::detached);
    asio::co_spawn(executor, read_words(run), asio::detached);

    run->outcome.status = co_await run->process->end_by(run->command.deadline);
    run->outcome.timed_out = run->outcome.status.signalled && run->outcome.status.code == SIGKILL &&
                             shared::Monotonic::now() >= run->command.deadline;
    co_await wait_for(run->event, shared::Monotonic::now() + kPipeGrace,
                      [&] { return run->open_streams == 0; });
    Outcome outcome = std::move(run->outcome);
    outcome.noise = run->marker.noise();
    if (run->too_much) {
        outcome.marked = false;
        outcome.words =
            "the answer is longer than " + std::to_string(kMaxAnswerBytes >> 20) + " MiB";
    }
    boost::system::error_code ignored;  // wakes the readers, which let go of `run`
    run->process->in.close(ignored);
    run->process->out.close(ignored);
    run->process->err.close(ignored);
    co_return outcome;
}

}  // namespace hostagent
