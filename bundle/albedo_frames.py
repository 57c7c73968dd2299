"""Frames as bytes: what agent, bridge and keeper send each other (docs/PROTOCOL.md).

    length u32 | kernel u32 | kind u8 | seq u64 | ack u64 | payload (length bytes)     big-endian

Pure, no I/O. Golden frames in tests/data/frames are read and written here and in C++.
"""
from _struct import Struct

CONTROL, OUTPUT, ACK, HELLO, REFUSED, SUPERSEDED, CREDIT, PAGE, QUERY = range(1, 10)
START, OPEN, OPENED, CLOSE, CLOSED, CALL, ANSWER, READY = range(32, 40)

HEADER = Struct(">IIBQQ")
HEADER_BYTES = HEADER.size
MAX_PAYLOAD_BYTES = 8 * 1024 * 1024
KERNEL_FIELD = Struct(">I")
KERNEL_OFFSET = 4
LENGTH = Struct(">I")


class BadFrame(Exception):
    """A length over the limit: nothing after it in that stream can be understood."""


def encode(kernel: int, kind: int, seq: int, ack: int, payload: bytes) -> bytes:
    """The frame's bytes. A payload over the limit is the caller's fault."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(f"a payload of {len(payload)} bytes")
    return HEADER.pack(len(payload), kernel, kind, seq, ack) + payload


class Decoder:
    """Takes bytes in pieces of any size, gives whole frames as (kernel, kind, seq, ack, payload).

    Keeps at most one frame and one piece."""

    __slots__ = ("_buffer", "_start")

    def __init__(self) -> None:
        self._buffer = b""
        self._start = 0

    def feed(self, piece: bytes) -> None:
        left = len(self._buffer) - self._start
        if left == 0:
            self._buffer = piece
        elif isinstance(self._buffer, bytearray) and self._start == 0:
            self._buffer += piece  # a long frame arrives in many pieces: no copy of them all each time
        else:
            self._buffer = bytearray(self._buffer[self._start:]) + piece
        self._start = 0

    def next(self):
        """The next whole frame, or None. Raises BadFrame."""
        start, buffer = self._start, self._buffer
        if len(buffer) - start < HEADER_BYTES:
            return None
        length, kernel, kind, seq, ack = HEADER.unpack_from(buffer, start)
        if length > MAX_PAYLOAD_BYTES:
            raise BadFrame(f"a frame of {length} bytes")
        end = start + HEADER_BYTES + length
        if len(buffer) < end:
            return None
        self._start = end
        return kernel, kind, seq, ack, bytes(buffer[start + HEADER_BYTES:end])
