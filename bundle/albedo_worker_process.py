"""The keeper's hold on its worker: its start, its socket, its output pipe, its end.

It can do to the worker what it likes, and nothing that the worker does can harm it. It knows
nothing of cells: messages and bytes go to its owner.
"""
from __future__ import annotations

import _signal
import _socket
import os
import sys
from _struct import Struct

import albedo_bundle
import albedo_json
import albedo_loop
import albedo_run_dir
import albedo_spawn
import albedo_stream

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable

LENGTH = Struct(">I")
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
PIPE_BYTES = 256 * 1024
READ_BYTES = 256 * 1024
SILENT_SECONDS = 0.5  # a worker that closed its socket has so long to end by itself
F_SETPIPE_SZ = 1031


class BecomeWorker(BaseException):
    """Raised in the forked child, up to the program's top level, so that no frame of the keeper is
    left below user code."""

    def __init__(self, socket_fd: int, life: int) -> None:
        super().__init__()
        self.socket_fd = socket_fd
        self.life = life


def cause_of(status: int) -> str:
    """A wait status in words."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        more = " (killed; perhaps out of memory)" if number == _signal.SIGKILL else ""
        try:
            name = f" {_signal.strsignal(number)}" if not more else ""
        except ValueError:
            name = ""
        return f"signal {number}{more}{name}"
    return f"exit {os.WEXITSTATUS(status)}"


class WorkerProcess:
    """One worker, from start to end. `on_end(cause)` is called once, after its last words."""

    def __init__(self, loop: albedo_loop.Loop, on_message: Callable, on_output: Callable,
                 on_end: Callable) -> None:
        self._loop = loop
        self._on_message = on_message
        self._on_output = on_output
        self._on_end = on_end
        self._buffer = b""
        self._pipe = -1
        self._life = -1
        self._stream: "albedo_stream.Stream | None" = None
        self._killer: "albedo_loop.Timer | None" = None
        self._paused = False
        self.pid = 0
        self.start = ""
        self.alive = False
        self.forced = ""  # why we ended it ourselves

    def _open(self):
        """Our ends are set; (socket, pipe, life) of the child, not inheritable."""
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self._pipe, pipe_write = os.pipe()
        life_read, self._life = os.pipe()
        os.set_blocking(self._pipe, False)
        try:
            import fcntl
            fcntl.fcntl(self._pipe, F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            pass  # the system's own size serves as well
        return ours, theirs, pipe_write, life_read

    def fork(self) -> None:
        """Starts the worker as a fork of this process, which has one thread. In the child,
        BecomeWorker is raised. It runs nothing until set_up()."""
        ours, theirs, pipe_write, life_read = self._open()
        pid = os.fork()
        if pid == 0:
            _signal.set_wakeup_fd(-1)
            os.setpgid(0, 0)
            os.dup2(pipe_write, 1)
            os.dup2(pipe_write, 2)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            albedo_spawn.close_others([0, 1, 2, theirs.fileno(), life_read])
            raise BecomeWorker(theirs.detach(), life_read)
        try:
            os.setpgid(pid, pid)
        except OSError:
            pass
        self._started(pid, ours, theirs, pipe_write, life_read)

    def exec(self, env: dict) -> None:
        """Starts the worker as a program of its own. Raises OSError."""
        ours, theirs, pipe_write, life_read = self._open()
        null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        program = os.path.join(albedo_bundle.ROOT, "albedo_worker.py")
        argv = [sys.executable or "python3", "-I", "-S", program, "3", "4"]
        try:
            pid = albedo_spawn.spawn(albedo_spawn.Spawn(argv, env, "/", {
                0: null, 1: pipe_write, 2: pipe_write, 3: theirs.fileno(), 4: life_read}), lambda _pid: None)
        except OSError:
            for descriptor in (null, pipe_write, life_read, self._pipe, self._life):
                os.close(descriptor)
            ours.close()
            theirs.close()
            raise
        os.close(null)
        self._started(pid, ours, theirs, pipe_write, life_read)

    def _started(self, pid: int, ours, theirs, pipe_write: int, life_read: int) -> None:
        theirs.close()
        os.close(pipe_write)
        os.close(life_read)
        self.pid = pid
        self.start = albedo_run_dir.start_time(pid)
        self.alive = True
        self._stream = albedo_stream.Stream(self._loop, ours, self._on_bytes, self._on_silence)
        self._loop.watch(self._pipe, albedo_loop.READ, self._on_pipe)

    # --- talking ---

    def send(self, message: dict) -> None:
        self.send_json(albedo_json.dumps(message))

    def send_json(self, data: bytes) -> None:
        self._stream.send(LENGTH.pack(len(data)) + data)

    def _on_bytes(self, piece: bytes) -> None:
        buffer = self._buffer + piece if self._buffer else piece
        start = 0
        while len(buffer) - start >= 4:
            end = start + 4 + LENGTH.unpack_from(buffer, start)[0]
            if end - start > MAX_MESSAGE_BYTES:
                self.kill("it wrote into its keeper's socket")
                return
            if len(buffer) < end:
                break
            try:
                message = albedo_json.loads(buffer[start + 4:end])
                kind = message["t"]
            except (ValueError, KeyError, TypeError):
                self.kill("it wrote into its keeper's socket")
                return
            start = end
            self._on_message(kind, message)
        self._buffer = buffer[start:]

    # --- output ---

    def _on_pipe(self, _events: int) -> None:
        self._read_pipe()

    def _read_pipe(self) -> int:
        try:
            data = os.read(self._pipe, READ_BYTES)
        except BlockingIOError:
            return -1
        except OSError:
            data = b""
        if not data:
            self._loop.unwatch(self._pipe)  # everybody closed it: nothing will come
            return 0
        self._on_output(data)
        return len(data)

    def drain(self) -> None:
        """Takes what is in the pipe now; a child that goes on writing does not extend it."""
        left = 4 * PIPE_BYTES
        while left > 0 and self._pipe >= 0:
            got = self._read_pipe()
            if got <= 0:
                return
            left -= got

    def pause_output(self, paused: bool) -> None:
        if self.alive and paused != self._paused:
            self._paused = paused
            if paused:
                self._loop.unwatch(self._pipe)
            else:
                self._loop.watch(self._pipe, albedo_loop.READ, self._on_pipe)

    # --- its end ---

    def signal(self, number: int, whole_group: bool) -> None:
        if self.alive:
            try:
                os.killpg(self.pid, number) if whole_group else os.kill(self.pid, number)
            except OSError:
                pass

    def kill(self, why: str) -> None:
        """Ends it and its group. The end is told when it has been waited for."""
        if self.alive:
            self.forced = self.forced or why
            self.signal(_signal.SIGKILL, True)
            self.signal(_signal.SIGKILL, False)

    def _on_silence(self) -> None:
        self._killer = self._loop.after(SILENT_SECONDS, lambda: self.kill("it closed its keeper's socket"))

    def reaped(self, status: int) -> None:
        """It was waited for: takes its last words, then tells its end."""
        self.signal(_signal.SIGKILL, True)
        self.alive = False
        if self._stream.open:
            self._stream.read(64)
        self.drain()
        self.close()
        self._on_end(self.forced or cause_of(status))

    def close(self) -> None:
        self._loop.cancel(self._killer)
        self._stream.close()
        self._loop.unwatch(self._pipe)
        for descriptor in (self._pipe, self._life):
            if descriptor >= 0:
                os.close(descriptor)
        self._pipe = self._life = -1
