"""One program that was started with run(): its process group, its streams, its end.

What it prints goes into its log, both streams in their order; other jobs may read it. Streams that are
taken apart keep their order only roughly, but readers then get standard output alone.
When its first process ends, what that left in the group is ended too, but for processes whose parent
has left the group. Knows nothing of cells, workers and other jobs' names.
"""
from __future__ import annotations

import _signal
import os
import stat
import time

import albedo_job_group
import albedo_job_input
import albedo_job_log
import albedo_loop
import albedo_output
import albedo_run_dir
import albedo_spawn

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable

MAX_TIMEOUT_SECONDS = 86400.0
MAX_STDIN_BYTES = 4 * 1024 * 1024  # in a message; more comes from a file
NICE = 10
DRAIN_SECONDS = 0.1
READ_BYTES = 256 * 1024
DRAIN_READS = 8  # a pipe holds less
YOUNG_SECONDS = 2.0  # a reader that is told with the next words still finds the first byte of a flood
YOUNG_BYTES = 8 * 1024 * 1024
LISTED_CHARACTERS = 4096

RUNNING, ENDED, LOST = "running", "ended", "lost"


class Request:
    """What to start. `timeout` 0: until it is stopped. `stdin`: "" end-of-file at once, "data", "path",
    "held" (a reader of another job's output, which is told later)."""

    __slots__ = ("argv", "env", "cwd", "timeout", "stdin", "data", "path", "apart")

    def __init__(self, argv: list, env: dict, cwd: str, timeout: float, stdin: str, data: bytes,
                 path: str, apart: bool) -> None:
        self.argv = argv
        self.env = env
        self.cwd = cwd
        self.timeout = timeout
        self.stdin = stdin
        self.data = data
        self.path = path
        self.apart = apart  # the streams, so that readers get standard output alone


def request_of(args: dict) -> Request:
    """Checks what came from a worker. Raises ValueError with words, TypeError, KeyError."""
    argv = [text_of(word) for word in args["argv"]]
    if not argv:
        raise ValueError("run() needs a program")
    timeout = float(args.get("timeout") or 0)
    if not 0 <= timeout <= MAX_TIMEOUT_SECONDS:
        raise ValueError(f"timeout is between 0 and {MAX_TIMEOUT_SECONDS:.0f} seconds")
    data = bytes.fromhex(args.get("data", ""))
    if len(data) > MAX_STDIN_BYTES:
        raise ValueError(f"stdin is longer than {MAX_STDIN_BYTES} bytes: write it to a file and pass its path")
    env = {text_of(name): text_of(value) for name, value in args["env"].items()}
    return Request(argv, env, text_of(args["cwd"]), timeout, str(args.get("stdin") or ""), data,
                   text_of(args.get("path", "")), bool(args.get("apart")))


def text_of(word: str) -> str:
    """Names and words travel as bytes in hex: they need not be valid text."""
    return os.fsdecode(bytes.fromhex(word))


def words_of(exit_code: "int | None", timed_out: bool = False) -> str:
    """How it ended, in words that nobody takes for success."""
    if exit_code is None:
        return ""
    after = " after its timeout" if timed_out else ""
    if exit_code >= 0:
        return f"exit {exit_code}{after}"
    try:
        name = _signal.strsignal(-exit_code)
    except ValueError:
        name = None
    more = "; perhaps out of memory" if exit_code == -9 and not timed_out else ""
    return f"signal {-exit_code}{f' ({name}{more})' if name else ''}{after}"


class Job:
    """`on_started(job)` is called while the process waits to run its program, `on_end(job)` once it has
    ended and what it printed is in the log."""

    def __init__(self, loop: albedo_loop.Loop, number: int, request: Request, log: albedo_job_log.JobLog,
                 on_started: Callable, on_end: Callable) -> None:
        self._loop = loop
        self._on_started = on_started
        self._on_end = on_end
        self._request = request
        self.number = number
        self.log = log
        self.command = " ".join(request.argv)[:LISTED_CHARACTERS]
        self.pid = 0
        self.start = ""
        self.started = time.monotonic()
        self.started_at = int(time.time() * 1000)
        self.ended = 0.0
        self.state = RUNNING
        self.exit_code: "int | None" = None
        self.timed_out = False
        self.note = ""  # what else is to be told of its end
        self.feed: "albedo_job_input.Feed | None" = None
        self.feeds: list = []  # of jobs that read what this one prints
        self.stopping = ""  # "gone" or "SURVIVED" once an Ending has settled
        self._was_read = False  # by some job
        self._out = self._err = -1
        self._paused = False
        self._young = True
        self._reaped = False
        self._ending: "albedo_job_group.Ending | None" = None
        self._told: list = []  # who waits for the Ending
        self._timer: "albedo_loop.Timer | None" = None

    kept = False  # whether it outlives the kernel
    was_seen = False  # by a cell of an earlier kernel

    @property
    def process(self) -> int:
        """Whose end is its end."""
        return self.pid

    def seen(self) -> None:
        """A cell has taken notice of its end."""

    @property
    def out_ended(self) -> bool:
        return self._out < 0

    def facts(self) -> dict:
        end = self.ended or time.monotonic()
        return {"job": self.number, "pid": self.pid, "state": self.state, "command": self.command,
                "started_at": self.started_at, "ms": round((end - self.started) * 1000),
                "exit_code": None if self.running else self.exit_code, "timed_out": self.timed_out,
                "end": "" if self.running else words_of(self.exit_code, self.timed_out) +
                (f"; {self.note}" if self.note else ""),
                "output_bytes": self.log.size, "kept": self.kept}

    @property
    def running(self) -> bool:
        """Until its end is told: what it printed is in the log by then."""
        return self.state == RUNNING

    # --- its start ---

    def begin(self) -> None:
        """Raises OSError when the folder, the program or the file for its input is not there."""
        request = self._request
        descriptors = {}
        try:
            stdin, feed = self._open_stdin()
            descriptors[0] = stdin
            self._out, descriptors[1] = os.pipe()
            if request.apart:
                self._err, descriptors[2] = os.pipe()
                os.set_blocking(self._err, False)
            os.set_blocking(self._out, False)

            def record(pid: int) -> None:
                self.pid = pid
                self.start = albedo_run_dir.start_time(pid)
                self._on_started(self)
            try:
                albedo_spawn.spawn(albedo_spawn.Spawn(
                    request.argv, request.env, request.cwd,
                    {0: stdin, 1: descriptors[1], 2: descriptors.get(2, descriptors[1])}), record)
            except OSError as error:
                for descriptor in (self._out, self._err, feed):
                    if descriptor >= 0:
                        os.close(descriptor)
                self._out = self._err = -1
                raise OSError(error.errno, error.strerror, error.filename or request.argv[0]) from None
        finally:
            for descriptor in descriptors.values():
                os.close(descriptor)
        try:  # now, not before its program runs: for that moment we wait
            os.setpriority(os.PRIO_PGRP, self.pid, min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICE))
        except OSError:
            pass  # it has ended
        self._loop.watch(self._out, albedo_loop.READ, lambda _events: self._on_out())
        if self._err >= 0:
            self._loop.watch(self._err, albedo_loop.READ, lambda _events: self._on_err())
        if feed >= 0:
            self.feed = albedo_job_input.Feed(self._loop, feed, self._on_input_lost)
            if request.stdin == "data":
                self.feed.begin(albedo_job_input.Given(request.data))
        self._loop.after(YOUNG_SECONDS, self._grow_up)
        if request.timeout > 0:
            self._timer = self._loop.after(request.timeout, self._on_timeout)

    def _open_stdin(self):
        """(what the program gets, our end of it or -1)."""
        request = self._request
        if request.stdin in ("data", "held"):
            return os.pipe()
        if request.stdin != "path":
            return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), -1
        descriptor = os.open(request.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            os.close(descriptor)
            raise OSError(21, os.strerror(21), request.path)
        os.set_blocking(descriptor, True)
        return descriptor, -1

    # --- its streams ---

    def _read(self, descriptor: int) -> "bytes | None":
        """None: nothing there now. Empty: its end."""
        try:
            return os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _on_out(self) -> bool:
        data = self._read(self._out)
        if data:
            self.log.append(data)
        elif data is not None:
            self._close_out()
        if data is not None:
            for feed in list(self.feeds):
                feed.pump()
            self.look_at_readers()
        return bool(data)

    def _on_err(self) -> bool:
        data = self._read(self._err)
        if data:
            self.log.append_error(data)
        elif data is not None:
            self._close_err()
        return bool(data)

    def drain(self) -> None:
        """Takes what is in the pipes."""
        for _ in range(DRAIN_READS):
            if self._out < 0 or not self._on_out():
                break
        for _ in range(DRAIN_READS):
            if self._err < 0 or not self._on_err():
                break

    def look_at_readers(self) -> None:
        """Lets the program wait while a reader is far behind; tells it when all have gone."""
        if self._out < 0 or self._reaped:
            return
        if self.feeds:
            behind = self.log.size - min(feed.offset for feed in self.feeds)
            pause = behind > albedo_job_input.MAX_BEHIND_BYTES
        elif self._was_read:
            self._close_out()
            return
        else:
            pause = self._young and self.log.size > YOUNG_BYTES
        if pause != self._paused:
            self._paused = pause
            if pause:
                self._loop.unwatch(self._out)
            else:
                self._loop.watch(self._out, albedo_loop.READ, lambda _events: self._on_out())

    def _grow_up(self) -> None:
        self._young = False
        self.look_at_readers()

    def read_from(self, job: "Job") -> None:
        """Takes the standard output of that job as its input. Raises ValueError, Gone."""
        if self.feed is None or self.feed.source is not None or not self.feed.open:
            raise ValueError(f"job {self.number} was started without an input that another job could give: write "
                             "run(...) | run(...) in one expression, job.pipe(...), or run(..., stdin=job)")
        source = albedo_job_input.Printed(job)
        job._was_read = True
        job.feeds.append(self.feed)
        self.feed.begin(source)
        job.look_at_readers()

    def let_go_of_input(self) -> None:
        """An input that nobody gave after all ends."""
        if self.feed is not None and self.feed.source is None:
            self.feed.close()

    def _on_input_lost(self, why: str) -> None:
        self.note = f"its input was cut short: {why}"
        self.stop(lambda *_: None)

    def _close_out(self) -> None:
        if self._out >= 0:
            self._loop.unwatch(self._out)
            os.close(self._out)
            self._out = -1

    def _close_err(self) -> None:
        if self._err >= 0:
            self._loop.unwatch(self._err)
            os.close(self._err)
            self._err = -1

    # --- its end ---

    def _on_timeout(self) -> None:
        if self.state == RUNNING:
            self.timed_out = True
            self.stop(lambda *_: None)

    def stop(self, answer: Callable) -> None:
        """`answer("gone" | "SURVIVED", pids)` once all of the group are looked for."""
        if self.stopping == albedo_job_group.GONE or (self._reaped and self._ending is None):
            answer(albedo_job_group.GONE, [])
            return
        self._told.append(answer)
        self._end_group(False)

    def _end_group(self, spare: bool) -> None:
        if self._ending is None or self.stopping:
            self.stopping = ""
            self._ending = albedo_job_group.Ending(
                self._loop, self.pid, self.start, lambda: not self._reaped, self._on_ended, spare)

    def _on_ended(self, result: str, pids: list) -> None:
        self.stopping = result
        if result == albedo_job_group.SURVIVED:
            self.note = f"process {', '.join(map(str, pids))} survived TERM and KILL"
        told, self._told = self._told, []
        for answer in told:
            answer(result, pids)

    def reaped(self, status: int) -> None:
        """Its first process was waited for."""
        self._reaped = True
        self.exit_code = os.waitstatus_to_exitcode(status)
        self.ended = time.monotonic()
        self._loop.cancel(self._timer)
        if self._ending is None:
            self._end_group(True)
        self.drain()
        if self._out < 0 and self._err < 0:
            self._finish()
        else:  # a descendant holds it: so much longer, no more
            self._loop.after(DRAIN_SECONDS, self._finish)

    def _finish(self) -> None:
        if self.state != RUNNING:
            return
        self.drain()
        self._close_out()
        self._close_err()
        for feed in list(self.feeds):
            feed.pump()
        if self.feed is not None:
            self.feed.close()
        self.state = ENDED
        self._on_end(self)

    def kill(self) -> None:
        """At the kernel's end."""
        if self.pid and not self._reaped:
            albedo_job_group.signal_group(self.pid, _signal.SIGKILL)

    def forget(self) -> None:
        """It is not asked for any more: its log goes. Readers must have ended."""
        self.log.close()

    def whole(self, offset: int, limit: int) -> bytes:
        """Bytes of the log, short only at its end. Raises Gone."""
        if self.state == RUNNING:
            self.drain()
        if offset < 0:
            offset = max(0, self.log.size + offset)
        wanted = max(0, min(limit, self.log.size - offset))
        parts = []
        while wanted > 0:
            part = self.log.read(offset, wanted)
            if not part:
                raise albedo_output.Gone("the log cannot be read on")
            parts.append(part)
            offset += len(part)
            wanted -= len(part)
        return b"".join(parts)
