"""`run(...)` in cells: programs that go on beside the cells, owned by the keeper.

The handle is only a name for a job: the keeper starts it, keeps what it prints and knows its end, so
that it outlives the cell, and the worker too.
"""
from __future__ import annotations

import os
import sys

import albedo_bundle

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Any

PAGE_BYTES = 1024 * 1024
WHOLE_BYTES = 16 * 1024 * 1024
SHOWN_BYTES = 2000


class JobLost(Exception):
    """The host ended the job with all that knew of it: how it ended is not known."""


class Output:
    """What a job printed on both of its streams, as it came. Offsets count bytes; text is decoded as UTF-8.

    Bytes that are not kept any more are refused with the reason, never left out silently."""

    def __init__(self, channel, job: int) -> None:
        self._channel = channel
        self._job = job

    def _facts(self) -> dict:
        return self._channel.ask("job", {"job": self._job})

    def read_bytes(self, offset: int, limit: int) -> bytes:
        """Up to `limit` bytes (1 MiB at most) from byte `offset`; from the end when it is negative."""
        return self._channel.ask("job_read", {
            "job": self._job, "offset": int(offset), "limit": int(limit)}).encode("latin-1")

    def read(self, offset: "int | None" = None, limit: "int | None" = None) -> str:
        """Up to `limit` bytes from byte `offset`, or all of a job that has ended (16 MiB at most)."""
        if offset is not None or limit is not None:
            data = self.read_bytes(offset or 0, PAGE_BYTES if limit is None else limit)
            return data.decode("utf-8", "replace")
        return b"".join(self._pages(self._whole_size(WHOLE_BYTES))).decode("utf-8", "replace")

    def _whole_size(self, most: "int | None") -> int:
        facts = self._facts()
        if facts["state"] == "running":
            raise ValueError(f"job {self._job} still runs: look at tail(), head() or read(offset, limit)")
        size = facts["output_bytes"]
        if most is not None and size > most:
            raise ValueError(f"job {self._job} printed {size} bytes: use read(offset, limit), tail() or save(path)")
        return size

    def _pages(self, size: int):
        offset = 0
        while offset < size:
            data = self.read_bytes(offset, min(PAGE_BYTES, size - offset))
            if not data:
                raise ValueError(f"byte {offset} of job {self._job} cannot be read")
            yield data
            offset += len(data)

    def head(self, limit: int = 4096) -> str:
        return self.read(0, limit)

    def tail(self, limit: int = 4096, lines: "int | None" = None) -> str:
        """The last `limit` bytes, or the last lines, of at most 1 MiB."""
        if lines is not None:
            text = self.read_bytes(-PAGE_BYTES, PAGE_BYTES).decode("utf-8", "replace")
            return "".join(text.splitlines(keepends=True)[-int(lines):] if int(lines) > 0 else [])
        limit = min(int(limit), PAGE_BYTES)
        return self.read_bytes(-limit, limit).decode("utf-8", "replace") if limit > 0 else ""

    def save(self, path: Any) -> str:
        """Writes all that an ended job printed to a file, whole or not at all; the file's path."""
        target = os.path.abspath(os.fsdecode(path))
        size = self._whole_size(None)
        part = f"{target}.{os.getpid()}.part"
        try:
            with open(part, "xb") as file:
                for data in self._pages(size):
                    file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, target)
        except BaseException:
            try:
                os.unlink(part)
            except OSError:
                pass
            raise
        return target

    @property
    def size(self) -> int:
        return self._facts()["output_bytes"]

    def __str__(self) -> str:
        return self.tail()


class Job:
    """A program that was started. `await` it, or look at `exit_code` now and then."""

    def __init__(self, run: "Run", facts: dict) -> None:
        self._run = run
        self._channel = run._channel
        self.id: int = facts["job"]
        self.pid: int = facts["pid"]
        self.command: str = facts["command"]
        self.output = Output(self._channel, self.id)
        for name in ("head", "tail", "read", "save"):
            setattr(self, name, getattr(self.output, name))

    def _facts(self) -> dict:
        return self._channel.ask("job", {"job": self.id})

    @property
    def exit_code(self) -> "int | None":
        """None while it runs, or when that is not known; minus the signal's number when one ended it."""
        return self._facts()["exit_code"]

    def poll(self) -> "int | None":
        return self.exit_code

    @property
    def state(self) -> str:
        """"running", "ended" or "lost"."""
        return self._facts()["state"]

    @property
    def timed_out(self) -> bool:
        return self._facts()["timed_out"]

    @property
    def duration(self) -> float:
        """Seconds it has run."""
        return self._facts()["ms"] / 1000

    def _waiting(self) -> dict:
        self._run._waits += 1
        return {"job": self.id, "key": self._run._waits}

    def _give_up(self, waiting: dict) -> None:
        """Nobody waits any more: its end is still owed to somebody."""
        self._channel.send({"t": "ask", "ask": 0, "method": "job_unwait", "args": waiting})

    def wait(self, timeout: "float | None" = None) -> "int | None":
        """The exit code once it has ended. Raises TimeoutError, JobLost."""
        waiting = self._waiting()
        try:
            facts = self._channel.ask("job_wait", waiting, timeout)
        except BaseException:
            self._give_up(waiting)
            raise
        return _checked(facts)["exit_code"]

    async def _wait(self) -> "Job":
        waiting = self._waiting()
        try:
            facts = await self._run._tasks().ask("job_wait", waiting)
        except BaseException:
            self._give_up(waiting)
            raise
        _checked(facts)
        return self

    def __await__(self):
        """The job itself, which shows how it ended and the last of what it printed. Raises JobLost."""
        return self._wait().__await__()

    def stop(self) -> str:
        """Ends the job and what it started: TERM, 0.25 s, KILL. "gone", or "SURVIVED ..." with what is left."""
        done = self._channel.ask("job_stop", {"job": self.id})
        if done["result"] == "gone":
            return "gone"
        return f"{done['result']} TERM and KILL: process {', '.join(map(str, done['pids']))}"

    def pipe(self, program: Any, *args: Any, **options: Any) -> "Job":
        """Starts a program that reads what this one prints; as run()."""
        return self._run(program, *args, stdin=self, **options)

    def __or__(self, reader: Any) -> "Job":
        if not isinstance(reader, Job):
            return NotImplemented
        self._channel.ask("job_pipe", {"job": reader.id, "source": self.id})
        return reader

    def __repr__(self) -> str:
        try:
            facts = self._facts()
            name = f"job {self.id} {facts['command'][:200]!r}"
            if facts["state"] == "running":
                return f"<{name} runs, pid {self.pid}>"
            shown = self.tail(SHOWN_BYTES)
            if facts["output_bytes"] > SHOWN_BYTES:
                shown = f"[{facts['output_bytes']} bytes, the last of them:]\n{shown}"
            return f"<{name} ended: {facts['end']}, {facts['ms'] / 1000:.1f} s>\n{shown}".rstrip("\n")
        except Exception as error:
            return f"<job {self.id}: {error}>"


def _checked(facts: dict) -> dict:
    if facts["state"] == "lost":
        raise JobLost(f"job {facts['job']} is {facts['end']}")
    return facts


class Run:
    def __init__(self, channel, tasks, cell) -> None:
        self._channel = channel
        self._tasks = tasks
        self._cell = cell
        self._waits = 0

    def __call__(self, program: Any, *args: Any, cwd: Any = None, env: "dict | None" = None, stdin: Any = None,
                 timeout: "float | None" = 300, stderr: str = "output", service: bool = False,
                 keep: bool = False) -> Job:
        """Starts a program at once, without a shell, and returns its handle; `run(...) | run(...)` is a pipe.

        `env` adds to the environment; `stdin` is text, bytes, a pathlib.Path or a job, else there is no
        input; after `timeout` seconds (a day at most; None: a day) it is ended. `stderr`: "output", both
        streams in their order, for whoever reads them; "apart": readers get standard output alone, as they
        do in a pipe of one expression. `service`: it runs until it
        is stopped or the kernel ends, and nobody waits for its end. `keep`: it outlives this kernel, and
        `run.job(id)` finds it in the session's next one. Raises FileNotFoundError and the like when it
        cannot start."""
        argv = [os.fsdecode(word if isinstance(word, (str, bytes)) or hasattr(word, "__fspath__") else str(word))
                for word in (program, *args)]
        full = dict(os.environ)
        for name, value in (env or {}).items():
            full[str(name)] = str(value)
        if stderr not in ("output", "apart"):
            raise ValueError('stderr is "output" or "apart"')
        if timeout is not None and not 0 < timeout <= 86400:
            raise ValueError("timeout is between 0 and 86400 seconds, a day")
        limit = 0.0 if service and not keep else float(86400 if timeout is None or service else timeout)
        request = {"argv": [_hex(word) for word in argv],
                   "cwd": _hex(os.path.abspath(os.fsdecode(cwd) if cwd is not None else os.getcwd())),
                   "env": {_hex(name): _hex(value) for name, value in full.items()}, "timeout": limit,
                   "service": bool(service), "keep": bool(keep), "cell": self._cell()}
        if isinstance(stdin, Job):
            request["source"] = stdin.id
        elif isinstance(stdin, str):
            request.update(stdin="data", data=stdin.encode("utf-8", "surrogateescape").hex())
        elif isinstance(stdin, (bytes, bytearray, memoryview)):
            request.update(stdin="data", data=bytes(stdin).hex())
        elif hasattr(stdin, "__fspath__"):
            request.update(stdin="path", path=_hex(os.path.abspath(os.fsdecode(stdin))))
        elif stdin is not None:
            raise TypeError(f"stdin is text, bytes, a pathlib.Path or a job, not {type(stdin).__name__}")
        if not keep:
            right, left = albedo_bundle.load("albedo_run_ahead").sides(sys._getframe(1))
            request["apart"] = left or stderr == "apart"
            if right and stdin is None:
                request["stdin"] = "held"
        return Job(self, self._channel.ask("run", request))

    def jobs(self) -> list:
        """Those that run, and the newest that have ended."""
        return [Job(self, facts) for facts in self._channel.ask("jobs", {"job": 0})]

    def job(self, number: int) -> Job:
        """The handle of a job by its id."""
        for job in self.jobs():
            if job.id == int(number):
                return job
        raise LookupError(f"there is no job {number}")

    def __repr__(self) -> str:
        return "<run(program, *args, cwd, env, stdin, timeout=300, stderr, service=False, keep=False); run.jobs(); run.job(id)>"


def _hex(text: str) -> str:
    """Names and words as bytes: they need not be valid text."""
    return os.fsencode(text).hex()
