"""`run(...)` in cells: programs that go on beside the cells, owned by the keeper.

The handle is only a name for a job: the keeper starts it, keeps what it prints and knows its end, so
that it outlives the cell, and the worker too.
"""
import os
from typing import Any


class Output:
    """What a job printed, by bytes; text is decoded as UTF-8."""

    def __init__(self, channel, job: int) -> None:
        self._channel = channel
        self._job = job

    def _read(self, offset: int, limit: int) -> str:
        return self._channel.ask("job_read", {"job": self._job, "offset": offset, "limit": limit})

    def read(self, offset: int = 0, limit: int = 65536) -> str:
        """Up to `limit` bytes (1 MiB at most) from byte `offset`."""
        return self._read(int(offset), int(limit))

    def head(self, limit: int = 4096) -> str:
        return self._read(0, int(limit))

    def tail(self, limit: int = 4096) -> str:
        return self._read(-int(limit), int(limit))

    @property
    def size(self) -> int:
        return self._channel.ask("job", {"job": self._job})["output_bytes"]

    def __str__(self) -> str:
        return self.tail()


class Job:
    """A program that was started. `await` it, or look at `exit_code` now and then."""

    def __init__(self, channel, tasks, facts: dict) -> None:
        self._channel = channel
        self._tasks = tasks
        self.id: int = facts["job"]
        self.pid: int = facts["pid"]
        self.argv: list = facts["argv"]
        self.output = Output(channel, self.id)

    def _facts(self) -> dict:
        return self._channel.ask("job", {"job": self.id})

    @property
    def exit_code(self) -> "int | None":
        """None while it runs; minus the signal's number when a signal ended it."""
        return self._facts()["exit_code"]

    poll = lambda self: self.exit_code  # noqa: E731

    @property
    def timed_out(self) -> bool:
        return self._facts()["timed_out"]

    @property
    def duration(self) -> float:
        """Seconds it has run."""
        return self._facts()["ms"] / 1000

    def wait(self, timeout: "float | None" = None) -> "int | None":
        """The exit code once it has ended. Raises TimeoutError."""
        return self._channel.ask("job_wait", {"job": self.id}, timeout)["exit_code"]

    def stop(self) -> "int | None":
        """Ends the job and what it started: TERM, then KILL. Its exit code."""
        self._channel.ask("job_stop", {"job": self.id})
        return self.wait()

    async def _wait(self) -> "int | None":
        return (await self._tasks().ask("job_wait", {"job": self.id}))["exit_code"]

    def __await__(self):
        return self._wait().__await__()

    def tail(self, limit: int = 4096) -> str:
        return self.output.tail(limit)

    def head(self, limit: int = 4096) -> str:
        return self.output.head(limit)

    def read(self, offset: int = 0, limit: int = 65536) -> str:
        return self.output.read(offset, limit)

    def __repr__(self) -> str:
        try:
            code = self.exit_code
        except Exception as error:
            return f"<job {self.id}: {error}>"
        state = "runs" if code is None else f"ended with {code}"
        return f"<job {self.id} {' '.join(self.argv)[:200]!r} {state}>"


class Run:
    def __init__(self, channel, tasks) -> None:
        self._channel = channel
        self._tasks = tasks

    def __call__(self, program: Any, *args: Any, cwd: Any = None, env: "dict | None" = None,
                 stdin: Any = None, timeout: float = 300) -> Job:
        """Starts a program at once, without a shell, and returns its handle.

        `env` adds to the environment; `stdin` is text, bytes or None; after `timeout` seconds it is
        ended. Raises OSError-like words when it cannot start."""
        argv = [os.fsdecode(os.fspath(word) if hasattr(word, "__fspath__") else
                            word if isinstance(word, (str, bytes)) else str(word)) for word in (program, *args)]
        full = dict(os.environ)
        for name, value in (env or {}).items():
            full[str(name)] = str(value)
        data = stdin.encode() if isinstance(stdin, str) else bytes(stdin or b"")
        folder = os.path.abspath(os.fsdecode(cwd) if cwd is not None else os.getcwd())
        facts = self._channel.ask("run", {
            "argv": [_hex(word) for word in argv], "cwd": _hex(folder),
            "env": {_hex(name): _hex(value) for name, value in full.items()},
            "stdin": data.hex(), "timeout": float(timeout)})
        return Job(self._channel, self._tasks, {**facts, "argv": argv})

    def __repr__(self) -> str:
        return "<run(program, *args, cwd=None, env=None, stdin=None, timeout=300)>"


def _hex(text: str) -> str:
    """Names and words as bytes: they need not be valid text."""
    return os.fsencode(text).hex()
