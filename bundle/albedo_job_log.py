"""What a job printed: both streams in one log as they came, and which bytes were standard output.

Readers of a pipe get standard output alone, from its first byte, whenever they join.
"""
import bisect

import albedo_output

MAX_STRETCHES = 65536  # of standard error told apart; older ones are forgotten and cannot be piped


class JobLog(albedo_output.OutputLog):
    __slots__ = ("_errors", "_told_from")

    def __init__(self, path: str, ring_bytes: int = albedo_output.RING_BYTES) -> None:
        super().__init__(path, ring_bytes)
        self._errors: list = []  # [start, end) of standard error, in order
        self._told_from = 0  # bytes before it are of either stream

    def append_error(self, data: bytes) -> None:
        start = self.size
        self.append(data)
        errors = self._errors
        if errors and errors[-1][1] == start:
            errors[-1][1] = self.size
            return
        errors.append([start, self.size])
        if len(errors) > MAX_STRETCHES:
            self._told_from = errors[MAX_STRETCHES // 2][1]
            del errors[:MAX_STRETCHES // 2 + 1]

    def read_standard(self, offset: int, limit: int):
        """(bytes of standard output from `offset`, the offset behind them). Empty at the log's end only.

        Raises Gone for bytes that are not kept, or not told apart, any more."""
        if offset < self._told_from:
            raise albedo_output.Gone("the streams are not told apart so far back")
        at = bisect.bisect_right(self._errors, offset, key=_end)
        if at < len(self._errors) and self._errors[at][0] <= offset:
            offset = self._errors[at][1]
            at += 1
        end = self._errors[at][0] if at < len(self._errors) else self.size
        data = self.read(offset, min(limit, end - offset))
        return data, offset + len(data)


def _end(stretch: list) -> int:
    return stretch[1]
