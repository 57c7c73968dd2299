"""The worker's end of the socket to its keeper: JSON messages of one line's length each.

One process, several threads: whoever waits for an answer reads for all. A SIGINT may raise at any
bytecode of the main thread, so reading and writing are shielded from it there; waiting is not.
"""
from __future__ import annotations

import _signal
import _socket
import _thread
import os
import select
from _struct import Struct
from _collections import deque

import albedo_json

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Any

LENGTH = Struct(">I")
READ_BYTES = 256 * 1024
CONTENDED_SECONDS = 0.05


class KeeperGone(BaseException):
    """The keeper has closed its end: this process has nothing left to do."""


class AskFailed(Exception):
    """What was asked for was refused or failed; the text says why."""


class Shield:
    """Holds a SIGINT back for a few statements of the main thread."""

    __slots__ = ("_old", "_came", "_main")

    def __enter__(self) -> None:
        self._came = False
        self._main = _thread.get_ident() == MAIN_THREAD
        if self._main:
            self._old = _signal.signal(_signal.SIGINT, self._remember)

    def _remember(self, *_args) -> None:
        self._came = True

    def __exit__(self, *_args) -> None:
        if self._main:
            old = self._old
            _signal.signal(_signal.SIGINT, old if old is not None else _signal.default_int_handler)
            if self._came:
                self._came = False
                if callable(old):
                    old(_signal.SIGINT, None)


MAIN_THREAD = _thread.get_ident()


class Channel:
    def __init__(self, socket: _socket.socket) -> None:
        self._socket = socket
        self.fd = socket.fileno()
        self.inbox: deque = deque()  # messages that are no answers
        self.on_answer_ready = None  # called when an answer for a future has come
        self._buffer = b""
        self._read_lock = _thread.allocate_lock()
        self._send_lock = _thread.allocate_lock()
        self._answers: dict = {}  # ask number: None while it is awaited, then the message
        self._next_ask = 0
        self.pid = os.getpid()

    def send(self, message: dict) -> None:
        data = albedo_json.dumps(message)
        data = LENGTH.pack(len(data)) + data
        if os.getpid() != self.pid:
            return  # a forked child has no voice here
        with Shield():
            with self._send_lock:
                try:
                    self._socket.sendall(data)
                except OSError:
                    raise KeeperGone from None

    def _feed(self, flags: int) -> bool:
        """Reads once and sorts whole messages; False when nothing was there."""
        try:
            piece = self._socket.recv(READ_BYTES, flags)
        except BlockingIOError:
            return False
        except OSError:
            piece = b""
        if not piece:
            raise KeeperGone
        buffer = self._buffer + piece if self._buffer else piece
        start = 0
        while len(buffer) - start >= 4:
            end = start + 4 + LENGTH.unpack_from(buffer, start)[0]
            if len(buffer) < end:
                break
            message = albedo_json.loads(buffer[start + 4:end])
            start = end
            ask = message.get("ask")
            if ask is None:
                self.inbox.append(message)
            elif ask in self._answers:
                self._answers[ask] = message
                if self.on_answer_ready is not None:
                    self.on_answer_ready(ask)
        self._buffer = buffer[start:]
        return True

    def wait(self) -> dict:
        """The next message, however long it takes. Main thread, between cells."""
        while not self.inbox:
            with self._read_lock:
                if not self.inbox:
                    self._feed(0)
        return self.inbox.popleft()

    def fill(self) -> None:
        """Takes what has arrived, without waiting. No-op while somebody else reads."""
        if not self._read_lock.acquire(False):
            return
        try:
            with Shield():
                while self._feed(_socket.MSG_DONTWAIT):
                    pass
        finally:
            self._read_lock.release()

    def start_ask(self, method: str, args: dict) -> int:
        """Sends a question; its number."""
        with Shield():
            self._next_ask += 1
            ask = self._next_ask
            self._answers[ask] = None
        self.send({"t": "ask", "ask": ask, "method": method, "args": args})
        return ask

    def take_answer(self, ask: int):
        """The answer if it has come, else None. Raises AskFailed for a refusal, OSError where the system
        refused."""
        message = self._answers.get(ask)
        if message is None:
            return None
        del self._answers[ask]
        if not message.get("ok"):
            if message.get("errno"):
                raise OSError(message["errno"], str(message.get("error")), message.get("filename") or None)
            raise AskFailed(str(message.get("error") or "it failed"))
        return message

    def forget(self, ask: int) -> None:
        self._answers.pop(ask, None)

    def ask(self, method: str, args: dict, timeout: "float | None" = None) -> Any:
        """Asks the keeper and waits for the answer's value. Any thread; KeyboardInterrupt ends it.

        Raises AskFailed, TimeoutError."""
        import time
        deadline = None if timeout is None else time.monotonic() + timeout
        ask = self.start_ask(method, args)
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        try:
            while True:
                message = self.take_answer(ask)
                if message is not None:
                    return message.get("value")
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError(f"{method}: no answer within {timeout} s")
                if not self._read_lock.acquire(timeout=CONTENDED_SECONDS):
                    continue
                try:
                    if self._answers.get(ask) is None:
                        if poll.poll(None if left is None else left * 1000):
                            with Shield():
                                self._feed(_socket.MSG_DONTWAIT)
                finally:
                    self._read_lock.release()
        finally:
            self.forget(ask)
