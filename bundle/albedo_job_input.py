"""The standard input of a job: bytes that were given, or what another job prints.

A reader that does not read makes the writer wait; a reader that has gone takes itself off, and a writer
whose readers have all gone gets SIGPIPE with its next write, as in a shell.
"""
from __future__ import annotations

import os

import albedo_loop
import albedo_output

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable

WRITE_BYTES = 64 * 1024
WRITES_A_TURN = 16  # then others have their turn
MAX_BEHIND_BYTES = 1024 * 1024  # a writer waits when a reader is further behind


class Given:
    """Bytes that came with run()."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def finished(self) -> bool:
        return self._at >= len(self._data)

    def more(self) -> bytes:
        piece = self._data[self._at:self._at + WRITE_BYTES]
        self._at += len(piece)
        return piece

    def detach(self, _feed) -> None:
        pass


class Printed:
    """The standard output of a job, from its first byte. `job` has `log`, `out_ended`, `feeds` and
    `look_at_readers()`. Raises Gone when the first bytes are not kept any more."""

    def __init__(self, job) -> None:
        log = job.log
        log.read_standard(0, 1)
        if log.size > albedo_output.HEAD_BYTES:
            log.read_standard(albedo_output.HEAD_BYTES, 1)
        self._job = job
        self.offset = 0

    @property
    def finished(self) -> bool:
        return self._job.out_ended and self.offset >= self._job.log.size

    def more(self) -> bytes:
        data, self.offset = self._job.log.read_standard(self.offset, WRITE_BYTES)
        self._job.look_at_readers()
        return data

    def detach(self, feed) -> None:
        if feed in self._job.feeds:
            self._job.feeds.remove(feed)
            self._job.look_at_readers()


class Feed:
    """Writes a source into the job's end of a pipe, and closes it behind the last byte.

    `on_lost(words)` is called when the source cannot give what it should: the job must not take what it
    got for all."""

    def __init__(self, loop: albedo_loop.Loop, descriptor: int, on_lost: Callable) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._on_lost = on_lost
        self._left = b""
        self.source: "Given | Printed | None" = None
        os.set_blocking(descriptor, False)

    @property
    def open(self) -> bool:
        return self._descriptor >= 0

    @property
    def offset(self) -> int:
        return self.source.offset if isinstance(self.source, Printed) else 0

    def begin(self, source: "Given | Printed") -> None:
        self.source = source
        self.pump()

    def pump(self, _events: int = 0) -> None:
        for _ in range(WRITES_A_TURN):
            if self._descriptor < 0:
                return
            try:
                if not self._left:
                    self._left = self.source.more()
                if not self._left:
                    if self.source.finished:
                        self.close()
                    else:
                        self._loop.watch(self._descriptor, 0, self._on_hang_up)
                    return
                self._left = self._left[os.write(self._descriptor, self._left):]
            except BlockingIOError:
                break
            except albedo_output.Gone as gone:
                self.close()
                self._on_lost(str(gone))
                return
            except OSError:  # nobody reads any more
                self.close()
                return
        self._loop.watch(self._descriptor, albedo_loop.WRITE, self.pump)

    def _on_hang_up(self, events: int) -> None:
        if events & albedo_loop.ENDED:
            self.close()

    def close(self) -> None:
        if self._descriptor < 0:
            return
        self._loop.unwatch(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
        self._left = b""
        if self.source is not None:
            self.source.detach(self)
