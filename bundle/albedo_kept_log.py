"""The log of a job that outlives kernels: written by its own process, read by any keeper.

The bytes lie in `output` as in every log, the first ones too; how many there are, and which the disk
refused, stands in `output.size`.
"""
import os
from _struct import Struct, error as StructError

import albedo_job_log
import albedo_output

STATE = Struct("<QQQ")  # size, the stretch that was lost
OUTPUT_FILE = "output"
SIZE_SUFFIX = ".size"


class Writer(albedo_job_log.JobLog):
    __slots__ = ("_state",)

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._state = os.open(path + SIZE_SUFFIX, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def append(self, data: bytes) -> None:
        self._spill(data)
        self.size += len(data)
        try:
            os.pwrite(self._state, STATE.pack(self.size, self._lost_from, self._lost_to), 0)
        except OSError:
            pass  # the next one tells


class Reader(albedo_job_log.JobLog):
    __slots__ = ()

    def refresh(self) -> None:
        """What there is now."""
        try:
            state = os.open(self.path + SIZE_SUFFIX, os.O_RDONLY | os.O_CLOEXEC)
            try:
                size, self._lost_from, self._lost_to = STATE.unpack(os.pread(state, STATE.size, 0))
            finally:
                os.close(state)
            if self._file < 0 and size:
                self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            self.size = size
        except (OSError, StructError):
            return  # nothing printed yet
        self._why = "they could not be written on the host"

    def read(self, offset: int, limit: int) -> bytes:
        data = super().read(offset, limit)
        self.refresh()
        if albedo_output.HEAD_BYTES <= offset < self.ring_start:  # overwritten while it was read
            raise albedo_output.Gone(f"bytes {albedo_output.HEAD_BYTES} to {self.ring_start} are gone")
        return data

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
