"""The numbering between the api's store and a kernel: nothing is lost, nothing counts twice.

Control frames are numbered from 1 in each direction. Each side keeps what the other has not
acknowledged and sends it again after an attach. Pure: no sockets, no clock. It knows payloads as
bytes and never reads them.
"""
from _collections import deque

OUTBOX_FRAMES = 4096
OUTBOX_BYTES = 64 * 1024 * 1024

NEW, REPLAY, GAP = "new", "replay", "gap"


class Link:
    """One side: what was received, what was sent and is not acknowledged."""

    __slots__ = ("received", "acknowledged", "next_seq", "outbox_bytes", "_outbox")

    def __init__(self) -> None:
        self.received = 0  # highest control frame that has arrived
        self.acknowledged = 0  # what the other side has been told of it
        self.next_seq = 1
        self.outbox_bytes = 0
        self._outbox: deque = deque()  # (seq, payload), oldest first

    @property
    def full(self) -> bool:
        """At its bound: new work has to be refused. Results and calls go in all the same."""
        return len(self._outbox) >= OUTBOX_FRAMES or self.outbox_bytes >= OUTBOX_BYTES

    def add(self, payload: bytes) -> int:
        """Keeps a new control frame until it is acknowledged; its number."""
        seq = self.next_seq
        self.next_seq = seq + 1
        self._outbox.append((seq, payload))
        self.outbox_bytes += len(payload)
        return seq

    def take(self, seq: int) -> str:
        """What a control frame with this number is: NEW (counted now), REPLAY, or GAP."""
        if seq == self.received + 1:
            self.received = seq
            return NEW
        return REPLAY if seq <= self.received else GAP

    def peer_has(self, ack: int) -> None:
        """The other side has all frames up to `ack`. Numbers never sent are ignored."""
        outbox = self._outbox
        while outbox and outbox[0][0] <= ack:
            self.outbox_bytes -= len(outbox.popleft()[1])

    def ack(self) -> int:
        """The number to put in a frame that leaves now."""
        self.acknowledged = self.received
        return self.received

    @property
    def ack_due(self) -> bool:
        return self.received > self.acknowledged

    def unacknowledged(self) -> list:
        """(seq, payload) of all that must be sent again after an attach, in order."""
        return list(self._outbox)
