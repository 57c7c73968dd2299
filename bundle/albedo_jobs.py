"""Programs that cells started with run(): owned by the keeper, so that they outlive cell and worker.

Each has a process group of its own, recorded before it runs. When its first process ends, what it
left in the group is ended too, but for processes whose parent has left the group (an ssh master that
stays, and its proxy).
"""
import _signal
import os
import time
from collections import OrderedDict
from typing import Callable

import albedo_loop
import albedo_output
import albedo_run_dir
import albedo_spawn

MAX_RUNNING = 64
KEPT_ENDED = 64
MAX_TIMEOUT_SECONDS = 86400.0
MAX_STDIN_BYTES = 4 * 1024 * 1024
NICE = 10
TERM_SECONDS = 0.25
DRAIN_SECONDS = 0.1
READ_BYTES = 256 * 1024
MAX_PAGE_BYTES = 1024 * 1024


class Job:
    def __init__(self, number: int, argv: list, log: albedo_output.OutputLog) -> None:
        self.number = number
        self.argv = argv
        self.log = log
        self.pid = 0
        self.start = ""
        self.started = time.monotonic()
        self.ended = 0.0
        self.exit_code: "int | None" = None
        self.timed_out = False
        self.pipe = -1
        self.stdin = -1
        self.stdin_left = b""
        self.timer: "albedo_loop.Timer | None" = None
        self.killer: "albedo_loop.Timer | None" = None
        self.waiters: list = []

    def facts(self) -> dict:
        end = self.ended or time.monotonic()
        return {"job": self.number, "pid": self.pid, "exit_code": self.exit_code, "timed_out": self.timed_out,
                "ms": round((end - self.started) * 1000), "output_bytes": self.log.size,
                "command": " ".join(self.argv)[:200]}


class Jobs:
    """`tell(message)` sends a `job` frame; `record()` writes the process file anew."""

    def __init__(self, loop: albedo_loop.Loop, tell: Callable, record: Callable, log_path: Callable) -> None:
        self._loop = loop
        self._tell = tell
        self._record = record
        self._log_path = log_path
        self._jobs: "OrderedDict[int, Job]" = OrderedDict()
        self._next = 1

    @property
    def running(self) -> list:
        return [job for job in self._jobs.values() if job.exit_code is None]

    def rows(self) -> list:
        return [job.facts() for job in self.running]

    def all_rows(self) -> list:
        return [job.facts() for job in self._jobs.values()]

    def process_entries(self) -> list:
        return [{"role": f"job {job.number}", "pid": job.pid, "pgid": job.pid, "start": job.start}
                for job in self.running if job.pid]

    # --- what cells ask ---

    def ask(self, method: str, args: dict, answer: Callable) -> None:
        """`answer(value)`, now or later. Raises LookupError, ValueError, OSError with words for the cell."""
        if method == "run":
            answer(self._start(args).facts())
            return
        job = self._jobs.get(int(args.get("job", 0)))
        if job is None:
            raise LookupError("that job is not known any more")
        if method == "job":
            answer(job.facts())
        elif method == "job_read":
            answer(self._read(job, int(args["offset"]), int(args["limit"])))
        elif method == "job_stop":
            self.stop(job.number)
            answer(None)
        elif method == "job_wait":
            if job.exit_code is None:
                job.waiters.append(answer)
            else:
                answer(job.facts())
        else:
            raise LookupError(f"there is no {method}")

    def _start(self, args: dict) -> Job:
        if len(self.running) >= MAX_RUNNING:
            raise ValueError(f"{MAX_RUNNING} jobs run already")
        argv = [_text(word) for word in args["argv"]]
        if not argv:
            raise ValueError("run() needs a program")
        timeout = float(args.get("timeout") or MAX_TIMEOUT_SECONDS)
        if not 0 < timeout <= MAX_TIMEOUT_SECONDS:
            raise ValueError("timeout is between 0 and 86400 seconds")
        stdin = bytes.fromhex(args.get("stdin", ""))
        if len(stdin) > MAX_STDIN_BYTES:
            raise ValueError(f"stdin is longer than {MAX_STDIN_BYTES} bytes")
        env = {_text(name): _text(value) for name, value in args["env"].items()}
        number = self._next
        job = Job(number, argv, albedo_output.OutputLog(self._log_path(f"job-{number}")))
        job.pipe, pipe_write = os.pipe()
        os.set_blocking(job.pipe, False)
        if stdin:
            stdin_read, job.stdin = os.pipe()
            os.set_blocking(job.stdin, False)
            job.stdin_left = stdin
        else:
            stdin_read = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

        def record(pid: int) -> None:
            job.pid = pid
            job.start = albedo_run_dir.start_time(pid)
            self._jobs[number] = job
            self._record()
        try:
            albedo_spawn.spawn(albedo_spawn.Spawn(
                argv, env, _text(args["cwd"]), {0: stdin_read, 1: pipe_write, 2: pipe_write}, nice=NICE), record)
        except OSError as error:
            self._jobs.pop(number, None)
            self._record()
            os.close(job.pipe)
            if job.stdin >= 0:
                os.close(job.stdin)
            raise OSError(error.errno, f"{error.strerror}: {error.filename or argv[0]}") from None
        finally:
            os.close(pipe_write)
            os.close(stdin_read)
        self._next += 1
        self._loop.watch(job.pipe, albedo_loop.READ, lambda _events: self._on_output(job))
        if job.stdin >= 0:
            self._loop.watch(job.stdin, albedo_loop.WRITE, lambda _events: self._on_stdin(job))
        job.timer = self._loop.after(timeout, lambda: self._on_timeout(job))
        self._tell({"t": "job", "state": "started", **job.facts()})
        return job

    def _read(self, job: Job, offset: int, limit: int) -> str:
        limit = max(0, min(limit, MAX_PAGE_BYTES))
        self._drain(job)
        if offset < 0:
            offset = max(0, job.log.size + offset)
        try:
            return job.log.read(offset, limit).decode("utf-8", "replace")
        except albedo_output.Gone as gone:
            raise LookupError(str(gone)) from None

    # --- output and input ---

    def _on_output(self, job: Job) -> bool:
        try:
            data = os.read(job.pipe, READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            job.log.append(data)
            return True
        self._close_pipe(job)
        return False

    def _drain(self, job: Job) -> None:
        for _ in range(8):
            if job.pipe < 0 or not self._on_output(job):
                return

    def _on_stdin(self, job: Job) -> None:
        try:
            written = os.write(job.stdin, job.stdin_left[:65536])
            job.stdin_left = job.stdin_left[written:]
        except BlockingIOError:
            return
        except OSError:
            job.stdin_left = b""
        if not job.stdin_left:
            self._loop.unwatch(job.stdin)
            os.close(job.stdin)
            job.stdin = -1

    def _close_pipe(self, job: Job) -> None:
        if job.pipe >= 0:
            self._loop.unwatch(job.pipe)
            os.close(job.pipe)
            job.pipe = -1

    # --- ends ---

    def _on_timeout(self, job: Job) -> None:
        job.timed_out = True
        self.stop(job.number)

    def stop(self, number: int) -> bool:
        """TERM, and KILL 0.25 s later. False when there is no such job or it has ended."""
        job = self._jobs.get(number)
        if job is None or job.exit_code is not None:
            return False
        if job.killer is None:
            _signal_group(job.pid, _signal.SIGTERM)
            job.killer = self._loop.after(TERM_SECONDS, lambda: _signal_group(job.pid, _signal.SIGKILL))
        return True

    def reaped(self, pid: int, status: int) -> bool:
        """A child was waited for; whether it was a job of ours."""
        for job in self.running:
            if job.pid == pid:
                job.exit_code = os.waitstatus_to_exitcode(status)
                job.ended = time.monotonic()
                self._loop.cancel(job.timer)
                self._end_group(job)
                self._finish(job)
                return True
        return False

    def _end_group(self, job: Job) -> None:
        """What the first process left behind."""
        self._loop.cancel(job.killer)
        members = group_members(job.pid, job.start)
        for pid in members:
            _signal_one(pid, _signal.SIGTERM)
        if members:
            self._loop.after(TERM_SECONDS, lambda: [
                _signal_one(pid, _signal.SIGKILL) for pid in group_members(job.pid, job.start)])

    def _finish(self, job: Job) -> None:
        self._drain(job)
        if job.pipe >= 0:  # a descendant holds it: 100 ms more, no longer
            self._loop.after(DRAIN_SECONDS, lambda: (self._drain(job), self._close_pipe(job)))
        if job.stdin >= 0:
            self._loop.unwatch(job.stdin)
            os.close(job.stdin)
            job.stdin = -1
        self._record()
        self._tell({"t": "job", "state": "ended", **job.facts(), "output": job.log.preview(True)[-2000:]})
        for answer in job.waiters:
            answer(job.facts())
        job.waiters.clear()
        ended = [old for old in self._jobs.values() if old.exit_code is not None]
        for old in ended[:-KEPT_ENDED]:
            self._close_pipe(old)
            old.log.close()
            del self._jobs[old.number]

    def forget_waiters(self) -> None:
        """The worker that asked has ended."""
        for job in self._jobs.values():
            job.waiters.clear()

    def kill_all(self) -> None:
        for job in self.running:
            _signal_group(job.pid, _signal.SIGKILL)


def group_members(group: int, since: str) -> list:
    """Live processes of the group, but for those whose parent left it: one that is no member and
    started after `since`, the group's own start. Linux; elsewhere none are known."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return []
    members = []
    for name in names:
        process = albedo_run_dir.process(int(name)) if name.isdigit() else None
        if process is None or process.group != group:
            continue
        parent = albedo_run_dir.process(process.parent)
        if parent is not None and parent.group != group and int(parent.start) > int(since or 0):
            continue
        members.append(int(name))
    return members


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except OSError:
        pass


def _signal_one(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass


def _text(word: str) -> str:
    return os.fsdecode(bytes.fromhex(word))
