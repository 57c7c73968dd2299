"""A socket in a loop: reads what comes, sends what fits and keeps the rest. Never blocks."""
from __future__ import annotations

import _socket
from _collections import deque

import albedo_loop

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable

READ_BYTES = 256 * 1024


class Stream:
    """Owns its socket. `on_bytes(piece)`, `on_end()` once, `on_drained()` when the queue got empty.

    Whoever sends looks at `queued` and keeps to a bound of its own."""

    def __init__(self, loop: albedo_loop.Loop, socket, on_bytes: Callable, on_end: Callable,
                 on_drained: "Callable | None" = None, read_bytes: int = READ_BYTES) -> None:
        socket.setblocking(False)
        self._loop = loop
        self._socket = socket
        self._fd = socket.fileno()
        self._on_bytes = on_bytes
        self._on_end = on_end
        self._on_drained = on_drained
        self._read_bytes = read_bytes
        self._queue: deque = deque()
        self._reading = True
        self._finishing: "albedo_loop.Timer | None" = None
        self.queued = 0
        self.open = True
        self._watch()

    def _watch(self) -> None:
        events = (albedo_loop.READ if self._reading else 0) | (albedo_loop.WRITE if self._queue else 0)
        self._loop.watch(self._fd, events, self._ready)

    def _ready(self, events: int) -> None:
        if events & albedo_loop.WRITE:
            self._flush()
        if self.open and events & (albedo_loop.READ | albedo_loop.ENDED):
            self.read()

    def read(self, pieces: int = 1) -> None:
        """Takes what has come, without waiting."""
        for _ in range(pieces):
            try:
                piece = self._socket.recv(self._read_bytes)
            except BlockingIOError:
                return
            except OSError:
                piece = b""
            if not piece:
                self.close()
                self._on_end()
                return
            if self._finishing is None:
                self._on_bytes(piece)
            if not self.open:
                return

    def send(self, data: bytes) -> None:
        """Bytes of an ended stream go nowhere; its owner hears of the end by `on_end`."""
        if not self.open:
            return
        if not self._queue:
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                return  # reading tells the end
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
            self._queue.append(data)
            self.queued += len(data)
            self._watch()
        else:
            self._queue.append(data)
            self.queued += len(data)

    def _flush(self) -> None:
        while self._queue:
            data = self._queue[0]
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                return
            except OSError:
                self._queue.clear()
                self.queued = 0
                break
            self.queued -= sent
            if sent < len(data):
                self._queue[0] = memoryview(data)[sent:]
                return
            self._queue.popleft()
        if self._finishing is not None:
            self.close()
            return
        self._watch()
        if self._on_drained is not None:
            self._on_drained()

    def pause(self, paused: bool) -> None:
        """Stops or goes on reading."""
        if self.open and self._reading == paused:
            self._reading = not paused
            self._watch()

    def finish(self, seconds: float = 1.0) -> None:
        """Sends what is queued, for so long at most, then closes. Nothing is read any more."""
        if not self.open:
            return
        if not self._queue:
            self.close()
            return
        self._finishing = self._loop.after(seconds, self.close)

    def close(self) -> None:
        if self.open:
            self.open = False
            self._loop.cancel(self._finishing)
            self._loop.unwatch(self._fd)
            self._queue.clear()
            self.queued = 0
            self._socket.close()


def connect(path: str):
    """A connected Unix socket. Raises OSError; never waits."""
    socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        socket.setblocking(False)
        socket.connect(path)
    except OSError:
        socket.close()
        raise
    return socket
