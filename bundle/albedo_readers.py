"""Sends logs to the attached api as far as its credit goes, and says when a cell should wait.

One window for each cell that somebody reads, valid for one attachment (docs/PROTOCOL.md, credit).
"""
from __future__ import annotations

import time
from _struct import Struct

import albedo_frames
import albedo_output

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable

CHUNK_BYTES = 128 * 1024
QUEUE_BYTES = 512 * 1024  # no more output is queued towards a slow bridge
BEHIND_BYTES = 8 * 1024 * 1024
STALLED_SECONDS = 5.0  # a reader that took nothing for so long does not hold the cell
OFFSET = Struct(">Q")


def cell_bytes(cell: str) -> bytes:
    """The 16 bytes of an id; an id that is no UUID never gets here."""
    return bytes.fromhex(cell.replace("-", ""))


class Readers:
    def __init__(self, log_of: Callable) -> None:
        self._log_of = log_of  # cell id to OutputLog or None
        self._windows: dict = {}
        self._readers: set = set()  # cells with credit that somebody gave on purpose
        self.send: "Callable | None" = None  # (kind, payload) of the attachment
        self.queued: Callable = lambda: 0

    def attach(self, send: Callable, queued: Callable) -> None:
        self._windows.clear()
        self._readers.clear()
        self.send = send
        self.queued = queued

    def detach(self) -> None:
        self._windows.clear()
        self._readers.clear()
        self.send = None

    def grant(self, cell: str, start: int, until: int, reader: bool) -> None:
        """Credit for [start, until). `reader`: by somebody who reads, not with the cell itself."""
        if self.send is None:
            return
        now = time.monotonic()
        window = self._windows.get(cell)
        if window is None:
            self._windows[cell] = albedo_output.Window(start, until, now)
        else:
            window.grant(start, until, now)
        if reader:
            self._readers.add(cell)

    def forget(self, cell: str) -> None:
        self._windows.pop(cell, None)
        self._readers.discard(cell)

    def pump(self) -> None:
        """Sends what credit and queue allow, of every cell."""
        for cell in list(self._windows):
            self.pump_one(cell)

    def pump_one(self, cell: str) -> None:
        """Sends what credit and queue allow of one cell's output."""
        window, log = self._windows.get(cell), self._log_of(cell)
        if window is None or log is None:
            return
        while window.position < log.size and window.position < window.until and self.queued() < QUEUE_BYTES:
            window.position = log.oldest(window.position)  # a jump marks what the ring lost
            try:
                data = log.read(window.position, min(CHUNK_BYTES, window.until - window.position))
            except albedo_output.Gone:
                break
            if not data:
                break
            self._send(cell, window, data)

    def appended(self, cell: str, log, data: bytes) -> bool:
        """`data` was just added to the log: sends it as it is where nothing stands before it."""
        window = self._windows.get(cell)
        if window is None or self.send is None:
            return True
        if window.position == log.size - len(data) and window.until >= log.size and \
                self.queued() < QUEUE_BYTES:
            self._send(cell, window, data)
            return True
        return False

    def _send(self, cell: str, window, data: bytes) -> None:
        self.send(albedo_frames.OUTPUT, cell_bytes(cell) + OFFSET.pack(window.position) + data)
        window.position += len(data)
        if cell in self._readers:
            window.moved_at = time.monotonic()

    def holds(self, cell: str) -> bool:
        """Whether the cell should wait: a reader that moves is far behind."""
        window = self._windows.get(cell)
        if window is None or cell not in self._readers or self.send is None:
            return False
        log = self._log_of(cell)
        return log is not None and log.size - window.position > BEHIND_BYTES and \
            time.monotonic() - window.moved_at < STALLED_SECONDS
