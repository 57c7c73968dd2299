"""A daemon per test: booted through the CLI in a home of its own, and taken away again.

`Daemon` is a context manager. Everything it starts carries its root folder in its environment, so
that after the test every process, socket and file of it can be found: leaving the block asserts
that the daemon ended in time and sweeps the kernels, which outlive it on purpose. Standard library
only; the program under test is $ALBEDO_BIN, else build/bin/albedo.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BOOT_SECONDS = 60
STOP_SECONDS = 10
HTTP_SECONDS = 60
SWEEP_SECONDS = 5
LOG_TAIL_LINES = 60


def albedo_program() -> Path:
    return Path(os.environ.get("ALBEDO_BIN") or ROOT / "build/bin/albedo").absolute()


def uuid7() -> str:
    """A version 7 UUID: 48 bits of Unix milliseconds, then random bits."""
    value = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80
    value |= 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62)
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def wait_until(condition: Callable[[], object], seconds: float, what: str) -> object:
    """The first true value of `condition`; AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.01)


class HttpError(Exception):
    """An answer of 400 or above: `status`, and the decoded body in `answer`."""

    def __init__(self, status: int, answer: object) -> None:
        super().__init__(f"{status}: {answer}")
        self.status = status
        self.answer = answer


class Daemon:
    """One $ALBEDO_HOME and its daemon.

    Under `root`: `home`, `user_home` ($HOME) and `workspace`. `environment` is all that the CLI
    and so the daemon get; change it before `boot`, which the context manager calls unless
    `start` is false. `pid`, `port` and `token` are those of daemon.json.
    """

    def __init__(self, start: bool = True) -> None:
        self._start = start
        self.program = albedo_program()
        self.pid = self.port = 0
        self.token = ""
        self._children: list[subprocess.Popen] = []

    def __enter__(self) -> Daemon:
        self.root = Path(tempfile.mkdtemp(prefix="albedo-t-")).resolve()
        self.home = self.root / "home"
        self.user_home = self.root / "user-home"
        self.workspace = self.root / "workspace"
        for folder in (self.home, self.user_home, self.workspace):
            folder.mkdir(mode=0o700)
        kept = {k: v for k, v in os.environ.items() if k != "HOME" and not k.startswith("ALBEDO_")}
        self.environment = {
            **kept,
            "HOME": str(self.user_home),
            "ALBEDO_HOME": str(self.home),
            "ALBEDO_KERNEL_GRACE_SECONDS": "60",
        }
        if self._start:
            try:
                self.boot()
            except BaseException:
                self.__exit__(None, None, None)
                raise
        return self

    def __exit__(self, failure: object, *_rest: object) -> None:
        try:
            for child in self._children:
                if child.poll() is None:
                    child.kill()
                child.wait()
                for pipe in (child.stdin, child.stdout, child.stderr):
                    if pipe:
                        pipe.close()
            self.stop()
        finally:
            log = self.log_tail() if failure else ""
            strays = sweep(self.root)
            shutil.rmtree(self.root)
            if log:
                print(f"--- daemon.log ---\n{log}", flush=True)
            if strays and not failure:
                raise AssertionError(f"could not be ended: {strays}")

    # --- the CLI -------------------------------------------------------------------------------

    def cli(self, *words: str, code: int | None = 0, stdin: str = "", timeout: float = BOOT_SECONDS,
            **more: object) -> subprocess.CompletedProcess:
        """Run `albedo WORDS` to its end; asserts its exit code unless `code` is None."""
        ended = subprocess.run(
            [str(self.program), *words], env=self.environment, input=stdin, capture_output=True,
            text=True, timeout=timeout, cwd=self.workspace, **more,
        )
        if code is not None and ended.returncode != code:
            raise AssertionError(
                f"albedo {' '.join(words)} exited {ended.returncode}, not {code}\n"
                f"--- stdout ---\n{ended.stdout}\n--- stderr ---\n{ended.stderr}\n"
                f"--- daemon.log ---\n{self.log_tail()}"
            )
        return ended

    def start_cli(self, *words: str, **more: object) -> subprocess.Popen:
        """Start `albedo WORDS`; ended with the test at the latest."""
        child = subprocess.Popen(
            [str(self.program), *words], env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.workspace, **more,
        )
        self._children.append(child)
        return child

    def boot(self) -> None:
        self.cli("sessions")
        self.read_record()

    def read_record(self) -> None:
        record = json.loads((self.home / "daemon.json").read_text())
        self.pid, self.port, self.token = record["pid"], record["port"], record["token"]

    def stop(self) -> None:
        """An orderly stop; asserts that it takes less than STOP_SECONDS."""
        try:
            self.read_record()
        except (OSError, ValueError):
            return
        if not alive(self.pid):
            return
        try:
            self.post("/shutdown", {})
        except (OSError, HttpError, http.client.HTTPException):
            os.kill(self.pid, signal.SIGTERM)
        wait_until(lambda: not alive(self.pid), STOP_SECONDS, f"the end of daemon {self.pid}")

    def kill(self, pid: int | None = None) -> None:
        """SIGKILL one process, the supervisor unless named, and wait for its end."""
        victim = pid or self.pid
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            return
        wait_until(lambda: not alive(victim), STOP_SECONDS, f"the end of {victim}")

    # --- processes -----------------------------------------------------------------------------

    def processes(self, name: str) -> list[int]:
        """Living processes of this test whose command line holds `name`."""
        wanted = name.encode()
        return [pid for pid, command in own_processes(self.root) if wanted in command]

    def log_tail(self) -> str:
        try:
            lines = (self.home / "daemon.log").read_text(errors="replace").splitlines()
        except OSError as failure:
            return f"(no daemon.log: {failure.strerror})"
        return "\n".join(lines[-LOG_TAIL_LINES:])

    # --- HTTP ----------------------------------------------------------------------------------

    def request(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None,
                timeout: float = HTTP_SECONDS) -> bytes:
        """One request on a connection of its own; the body of the answer. HttpError from 400."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(
                method, path, None if body is None else json.dumps(body),
                {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json",
                 **(headers or {})},
            )
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            try:
                words = json.loads(content)
            except ValueError:
                words = content.decode(errors="replace")
            raise HttpError(answer.status, words)
        return content

    def get(self, path: str, **more: object):
        return json.loads(self.request("GET", path, **more))

    def post(self, path: str, body: object, **more: object):
        return json.loads(self.request("POST", path, body, **more) or b"null")

    def session(self, workspace: str | Path | None = None) -> str:
        made = self.post("/sessions", {"operationId": uuid7(), "workspace": str(workspace or self.workspace)})
        return made["id"]

    def cell(self, session: str, code: str, **more: object) -> dict:
        """Run a cell to its end; its result."""
        return self.post(f"/sessions/{session}/cells?wait=true", {"code": code, "operationId": uuid7(), **more})

    def start_cell(self, session: str, code: str, **more: object) -> str:
        """Send a cell; its id."""
        return self.post(f"/sessions/{session}/cells", {"code": code, "operationId": uuid7(), **more})["cellId"]

    def stream(self, path: str, last_event_id: str = "", timeout: float = HTTP_SECONDS) -> Iterator[tuple[str, str, str]]:
        """Server-sent events as (event, data, id), until the daemon ends the stream."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            headers = {"Authorization": f"Bearer {self.token}"}
            if last_event_id:
                headers["Last-Event-ID"] = last_event_id
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            if answer.status >= 400:
                raise HttpError(answer.status, answer.read().decode(errors="replace"))
            fields: dict[str, list[str]] = {}
            event_id = ""
            for raw in answer:
                text = raw.decode().rstrip("\r\n")
                if text:
                    key, _, value = text.partition(":")
                    fields.setdefault(key, []).append(value.removeprefix(" "))
                    continue
                event_id = fields.get("id", [event_id])[-1]
                if "data" in fields:
                    yield fields.get("event", ["message"])[-1], "\n".join(fields["data"]), event_id
                fields = {}
        finally:
            connection.close()


def alive(pid: int) -> bool:
    """Whether the process is there. A zombie is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in (b"Z", b"X")


def own_processes(root: Path) -> Iterator[tuple[int, bytes]]:
    """(pid, command line) of every process that names `root` in its arguments or environment."""
    needle = os.fsencode(root)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            if needle in command or needle in (process / "environ").read_bytes():
                if alive(int(process.name)) and int(process.name) != os.getpid():
                    yield int(process.name), command
        except OSError:  # it ended meanwhile
            continue


def sweep(root: Path) -> list[tuple[int, bytes]]:
    """SIGKILL every process of `root`; those that are still there after SWEEP_SECONDS."""
    deadline = time.monotonic() + SWEEP_SECONDS
    while strays := list(own_processes(root)):
        for pid, _command in strays:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if time.monotonic() > deadline:
            return strays
        time.sleep(0.02)
    return []
