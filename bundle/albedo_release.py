"""The release of an idle kernel: its names go to a file for the session's next kernel here.

The daemon asks with `release`; the keeper answers `released` or `kept`, and the daemon then ends the
kernel as any other. The file is there only while no cell ran after it was written.
"""
from __future__ import annotations

import _signal
import os

import albedo_run_dir
import albedo_state

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable

SAVE_SECONDS = 60.0  # then the kernel is kept; what the worker still writes counts for nothing
SESSION_CHARACTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyz-")


def state_path(run: str, session: str) -> str:
    """Where the session's names are kept on this host: beside `run/`. "" for no proper session."""
    if not session or len(session) > 64 or set(session) - SESSION_CHARACTERS:
        return ""
    return os.path.join(os.path.dirname(os.path.dirname(run)), albedo_state.FOLDER, session)


class Release:
    """`worker()` gives the worker as it is; `tell(message)` numbers and sends."""

    def __init__(self, loop, path: str, folder: str, cells, jobs, worker: Callable, tell: Callable,
                 seconds: float = SAVE_SECONDS) -> None:
        self._loop = loop
        self._path = path
        self._folder = folder
        self._cells = cells
        self._jobs = jobs
        self._worker = worker
        self._tell = tell
        self._timer = None
        self._seconds = seconds
        self._written = self._marked = False

    def begin(self) -> None:
        if self._timer is not None:
            return
        if not self._path:
            self._kept("its session has no proper name")
        elif self._cells.busy:
            self._kept("a cell runs")
        elif self._jobs.running:
            self._kept("a job runs")
        elif not self._worker().alive:
            self._released({"count": 0, "bytes": 0})
        else:
            self._timer = self._loop.after(self._seconds, self._too_slow)
            self._worker().send({"t": "save", "path": self._path, "folder": self._folder})

    def on_saved(self, message: dict) -> None:
        """The worker has written the file, or says why not."""
        if self._timer is None:
            albedo_state.forget(self._path)
            return
        self._stop()
        if message.get("error"):
            self._kept(str(message["error"]))
        elif self._cells.busy or self._jobs.running:
            albedo_state.forget(self._path)
            self._kept("a cell came")
        else:
            self._written = True
            self._released(message)

    def _released(self, report: dict) -> None:
        """The session goes on: whoever ends this kernel leaves it what outlives kernels."""
        try:
            albedo_run_dir.write_file(albedo_run_dir.RELEASED_FILE, b"")
            self._marked = True
        except OSError as error:
            self._kept(f"the host's disk: {error.strerror}")
            return
        self._tell({**report, "t": "released"})

    def on_execute(self) -> None:
        """A cell comes after all: what was saved is out of date."""
        if self._written:
            self._written = False
            albedo_state.forget(self._path)
        if self._marked:
            self._marked = False
            albedo_state.forget(albedo_run_dir.RELEASED_FILE)

    def on_worker_end(self) -> None:
        if self._timer is not None:
            self._stop()
            albedo_state.forget(self._path + ".part")
            self._kept("the worker ended while it saved its names")

    def _too_slow(self) -> None:
        self._timer = None
        self._worker().signal(_signal.SIGINT, whole_group=False)  # past the value that does not end
        self._kept(f"saving its names took longer than {self._seconds:g} s")

    def _stop(self) -> None:
        self._loop.cancel(self._timer)
        self._timer = None

    def _kept(self, why: str) -> None:
        self._tell({"t": "kept", "why": why})
