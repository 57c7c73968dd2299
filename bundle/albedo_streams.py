"""sys.stdout and sys.stderr of a worker: UTF-8 that never fails, in order, and fast in a flood.

Both write to one pipe. A line leaves as it is printed, as on a terminal. A cell that prints very many
lines is switched to whole buffers, flushed every 10 ms by a thread that lives as long as the flood,
and before a child starts, so that what children print stays in order.
"""
from __future__ import annotations

import _codecs
import _io
import _thread
import os
import sys
import time

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable

BUFFER_BYTES = 64 * 1024
FLOOD_WRITES = 512  # this many lines ...
FLOOD_SECONDS = 0.05  # ... in this time are a flood
FLUSH_SECONDS = 0.01
CALM_TICKS = 5  # the flood is over after this many quiet flushes
CALM_BYTES = 4096
CHILD_EVENTS = frozenset(("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn",
                          "os.exec", "pty.spawn"))
ERRORS = "albedo"


def _stand_in(error: UnicodeError):
    """Bytes that Python hid in a text go out as they were; other surrogates as \\udxxx."""
    out = bytearray()
    for character in error.object[error.start:error.end]:
        code = ord(character)
        out += bytes([code - 0xDC00]) if 0xDC80 <= code <= 0xDCFF else b"\\u%04x" % code
    return bytes(out), error.end


class _Raw(_io._RawIOBase):
    """A descriptor that is written to by number, whatever the user has put there."""

    def __init__(self, streams: "Streams", number: int) -> None:
        self._streams = streams
        self._number = number
        self.written = 0
        self._count = 0
        self._since = 0.0

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return False

    def write(self, data) -> int:
        if self._number == 2:
            self._streams.flush_stdout()  # what was printed before an error stands before it
        written = os.write(self._number, data)
        self.written += written
        self._count += 1
        if self._count >= FLOOD_WRITES:
            now = time.monotonic()
            if self._number == 1 and now - self._since < FLOOD_SECONDS:
                self._streams.flood()
            self._count = 0
            self._since = now
        return written


class _Tagged(_io.TextIOWrapper):
    """While cells run beside each other: what an older one prints is told to belong to it."""

    def __init__(self, *args, owner: Callable, send: Callable, **more) -> None:
        super().__init__(*args, **more)
        self._owner = owner
        self._send = send

    def write(self, text: str) -> int:
        cell = self._owner()
        if cell is None or not isinstance(text, str):
            return super().write(text)
        self._send(cell, text)
        return len(text)


class Streams:
    def __init__(self) -> None:
        _codecs.register_error(ERRORS, _stand_in)
        self._flooding = False
        self._hooked = False
        self._lock = _thread.allocate_lock()
        self.stdout = self.stderr = None
        self.install()

    def _make(self, number: int, tag: "dict | None" = None):
        buffer = _io.BufferedWriter(_Raw(self, number), BUFFER_BYTES)
        kind = _Tagged if tag else _io.TextIOWrapper
        stream = kind(buffer, "utf-8", ERRORS, "\n", True, **(tag or {}))
        stream.mode = "w"
        return stream

    def install(self, tag: "dict | None" = None) -> None:
        """Fresh streams. A stream that the user put in their place stays."""
        mine = (None, self.stdout, self.stderr, sys.__stdout__, sys.__stderr__)
        self.flush()
        old_out, old_err = self.stdout, self.stderr
        self.stdout, self.stderr = self._make(1, tag), self._make(2, tag)
        if old_out is None or any(sys.stdout is stream for stream in mine):
            sys.stdout = self.stdout
        if old_out is None or any(sys.stderr is stream for stream in mine):
            sys.stderr = self.stderr
        sys.__stdout__, sys.__stderr__ = self.stdout, self.stderr
        self._old = (old_out, old_err)  # loggers may hold them: not closed by their end

    def repair(self) -> None:
        """Before a cell: streams that an earlier one closed are made anew."""
        if self.stdout.closed or self.stderr.closed:
            self.install()
        if sys.stdin is None or sys.stdin.closed:
            sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)

    def flush_stdout(self) -> None:
        try:
            self.stdout.flush()
        except (ValueError, OSError, RuntimeError, AttributeError):
            pass  # closed by the user, or in use one frame above: nothing of ours is lost

    def flush(self) -> None:
        """All of Python's own buffers, the user's replacements too."""
        for stream in (self.stdout, self.stderr, sys.stdout, sys.stderr):
            try:
                if stream is not None:
                    stream.flush()
            except Exception:
                pass

    def flood(self) -> None:
        if self._flooding:
            return
        self._flooding = True
        if not self._hooked:
            self._hooked = True
            sys.addaudithook(self._on_event)
        _thread.start_new_thread(self._flush_while_flooding, (self.stdout, os.getpid()))

    def _on_event(self, event: str, _args) -> None:
        if self._flooding and event in CHILD_EVENTS:
            self.flush_stdout()

    def _flush_while_flooding(self, stream, pid: int) -> None:
        try:
            stream.reconfigure(line_buffering=False)
            calm, seen = 0, 0
            while calm < CALM_TICKS and os.getpid() == pid:
                time.sleep(FLUSH_SECONDS)
                stream.flush()
                written = stream.buffer.raw.written
                calm = calm + 1 if written - seen < CALM_BYTES else 0
                seen = written
            stream.reconfigure(line_buffering=True)
        except (ValueError, OSError, AttributeError):
            pass  # the user closed it
        finally:
            self._flooding = False

    def after_fork(self) -> None:
        """In a child of the worker: it has no flushing thread."""
        if self._flooding:
            self._flooding = False
            try:
                self.stdout.reconfigure(line_buffering=True)
            except (ValueError, OSError):
                pass
