"""What one cell or job printed: a log with byte offsets.

The first 1 MiB is kept, and a ring of the newest bytes after it; what the ring lost is counted and
told, never silently short. The first bytes stay in memory; a private file takes the rest as soon as
there is any, so that most cells never touch the disk. It knows nothing of cells and readers.
"""
import os

HEAD_BYTES = 1024 * 1024
RING_BYTES = 16 * 1024 * 1024
MEMORY_BYTES = 64 * 1024
PREVIEW_BYTES = 64 * 1024


class Gone(Exception):
    """Bytes asked for that are not kept any more; the text says why."""


class OutputLog:
    """Offsets count bytes from the first one printed. `path` is made when it is needed first."""

    __slots__ = ("path", "size", "ring_bytes", "_memory", "_file", "_lost_from", "_lost_to", "_why")

    def __init__(self, path: str, ring_bytes: int = RING_BYTES) -> None:
        self.path = path
        self.size = 0
        self.ring_bytes = ring_bytes
        self._memory = bytearray()
        self._file = -1
        self._lost_from = self._lost_to = 0  # one stretch that the disk refused
        self._why = ""

    def append(self, data: bytes) -> None:
        """Never fails: what the disk refuses counts as gone, with its words."""
        if self.size < MEMORY_BYTES:
            self._memory += data[:MEMORY_BYTES - self.size]
        if self.size + len(data) > MEMORY_BYTES:
            self._spill(data)
        self.size += len(data)

    def _spill(self, data: bytes) -> None:
        start, offset = self.size, self.size
        view = memoryview(data)
        try:
            if self._file < 0:
                self._file = os.open(
                    self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            while view:
                place, room = self._place(offset)
                written = os.pwrite(self._file, view[:room], place)
                view = view[written:]
                offset += written
        except OSError as error:
            if self._lost_to == 0:
                self._lost_from = max(offset, MEMORY_BYTES)
            self._lost_to = start + len(data)
            self._why = f"it could not be written on the host: {error.strerror}"

    def _place(self, offset: int):
        """Where in the file a byte is, and how many follow it there."""
        if offset < HEAD_BYTES:
            return offset, HEAD_BYTES - offset
        in_ring = (offset - HEAD_BYTES) % self.ring_bytes
        return HEAD_BYTES + in_ring, self.ring_bytes - in_ring

    @property
    def ring_start(self) -> int:
        """The oldest byte the ring holds; bytes from HEAD_BYTES up to it are gone."""
        return max(HEAD_BYTES, self.size - self.ring_bytes)

    def oldest(self, offset: int) -> int:
        """The first byte at or after `offset` that is still kept."""
        if HEAD_BYTES <= offset < self.ring_start:
            offset = self.ring_start
        if self._lost_from <= offset < self._lost_to:
            offset = self._lost_to
        return offset

    def read(self, offset: int, limit: int) -> bytes:
        """Up to `limit` bytes from `offset`, fewer only at the log's end or before a gap.

        Raises Gone for a byte that is not kept any more."""
        end = min(self.size, offset + limit)
        if offset >= end:
            return b""
        if self._lost_from <= offset < self._lost_to:
            raise Gone(f"bytes {self._lost_from} to {self._lost_to} are gone: {self._why}")
        if HEAD_BYTES <= offset < self.ring_start:
            raise Gone(f"bytes {HEAD_BYTES} to {self.ring_start} are gone: only the first {HEAD_BYTES} "
                       f"and the newest {self.ring_bytes} bytes are kept")
        if offset < HEAD_BYTES < self.ring_start and end > HEAD_BYTES:
            end = HEAD_BYTES
        if offset < self._lost_from < end:
            end = self._lost_from
        if end <= len(self._memory):
            return bytes(self._memory[offset:end])
        pieces = []
        while offset < end:
            if offset < min(len(self._memory), HEAD_BYTES):
                piece = bytes(self._memory[offset:end])
            else:
                place, room = self._place(offset)
                try:
                    piece = os.pread(self._file, min(room, end - offset), place)
                except OSError as error:
                    raise Gone(f"the log cannot be read on the host: {error.strerror}") from None
                if not piece:
                    raise Gone("the log's file was cut short on the host")
            pieces.append(piece)
            offset += len(piece)
        return b"".join(pieces)

    def preview(self, from_end: bool) -> str:
        """At most 64 KiB as text: the start, or the end. Characters are not torn."""
        if not from_end or self.size <= PREVIEW_BYTES:
            data = bytes(self._memory[:PREVIEW_BYTES])
            if self.size > PREVIEW_BYTES:
                data = _without_torn_end(data)
        else:
            start = self.size - PREVIEW_BYTES
            try:
                data = self.read(self.oldest(start), PREVIEW_BYTES)
            except Gone as gone:
                return f"[{gone}]\n"
            lost = self.size - self.oldest(start) - len(data)
            for torn in range(min(4, len(data))):
                if data[torn] & 0xC0 != 0x80:
                    data = data[torn:]
                    break
            if lost > 0:
                data += f"\n[{lost} bytes are gone: {self._why}]\n".encode()
        return data.decode("utf-8", "replace")

    @property
    def in_memory(self) -> bool:
        return self._file < 0

    def close(self) -> None:
        """The log is not asked for any more: its file goes."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            try:
                os.unlink(self.path)
            except OSError:
                pass


def _without_torn_end(data: bytes) -> bytes:
    """Without the first bytes of a character whose last ones are not there."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if back < needed else data
        if byte < 0x80:
            break
    return data


class Window:
    """How far one attachment may be sent a log unasked (docs/PROTOCOL.md, credit)."""

    __slots__ = ("position", "until", "moved_at")

    def __init__(self, position: int, until: int, moved_at: float) -> None:
        self.position = position
        self.until = until
        self.moved_at = moved_at

    def grant(self, start: int, until: int, now: float) -> None:
        """More credit. Bytes before the position were sent already; a start beyond it skips."""
        if until > self.until:
            self.moved_at = now
        self.until = max(self.until, until)
        self.position = max(self.position, start)
