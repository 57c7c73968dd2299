"""The keeper's book of cells: what waits, what runs, how each ended, and what interrupts do.

A cell is `queued`, then `running`, then ended in exactly one `done`. One cell runs in the foreground;
one that awaits and is `backgrounded` lets others run beside it. Deadlines and interrupts act from
outside the worker: SIGINT at 0, 2 and 5 seconds, each told; only `force` ends the worker.
"""
from __future__ import annotations

import _signal
import time
from _collections import OrderedDict, deque

import albedo_json
import albedo_loop
import albedo_output

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable

STARTED_SECONDS = 0.02  # cells that are quicker are told by their `done` alone
BACKGROUND_MS = 60_000
MAX_BESIDE = 16
MAX_QUEUED = 1024
SIGINT_AT = (0.0, 2.0, 5.0)
GIVE_UP_AT = 7.0
KNOWN_IDS = 4096
KEPT_LOGS = 16
KEPT_DONE_BYTES = 16 * 1024 * 1024
LATE_BYTES = 64 * 1024

QUEUED, RUNNING = "queued", "running"


class Cell:
    __slots__ = ("id", "request", "state", "log", "timeout_ms", "background_ms", "started", "started_at",
                 "awaits", "backgrounded", "told_started", "reason", "step", "ladder", "timer", "clock",
                 "cancelled")

    def __init__(self, cell: str, request: bytes, message: dict) -> None:
        self.id = cell
        self.request = request
        self.state = QUEUED
        self.log: "albedo_output.OutputLog | None" = None
        self.timeout_ms = message.get("timeout_ms")
        background = message.get("background_ms")
        self.background_ms = BACKGROUND_MS if background is None else background
        self.started = 0.0
        self.started_at = 0
        self.awaits = False
        self.backgrounded = False
        self.told_started = False
        self.reason = ""  # why it is being interrupted: "" no, "asked", "timeout"
        self.step = 0
        self.ladder: "albedo_loop.Timer | None" = None
        self.timer: "albedo_loop.Timer | None" = None
        self.clock: "albedo_loop.Timer | None" = None
        self.cancelled = False


class CellQueue:
    """`tell(message, result)` sends a control frame; `worker()` gives a live worker or raises OSError."""

    def __init__(self, loop: albedo_loop.Loop, readers, tell: Callable, worker: Callable,
                 log_path: Callable, ring_bytes: int) -> None:
        self._loop = loop
        self._readers = readers
        self._tell = tell
        self._worker = worker
        self._log_path = log_path
        self._ring_bytes = ring_bytes
        self._waiting: deque = deque()
        self.running: "OrderedDict[str, Cell]" = OrderedDict()  # oldest first
        self._logs: "OrderedDict[str, albedo_output.OutputLog]" = OrderedDict()
        self._ended: "OrderedDict[str, str]" = OrderedDict()  # id: status, newest last
        self._done: "OrderedDict[str, bytes]" = OrderedDict()
        self._done_bytes = 0
        self._late = bytearray()
        self._late_lost = 0
        self._pumping: "albedo_loop.Timer | None" = None

    # --- what is known ---

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self.running)

    def log(self, cell: str) -> "albedo_output.OutputLog | None":
        return self._logs.get(cell)

    def has_ended(self, cell: str) -> bool:
        return cell in self._ended

    def describe(self, unacknowledged: Callable) -> list:
        """For `hello`: cells queued or running, and ended ones whose `done` was not acknowledged."""
        rows = [{"cell": cell.id, "status": RUNNING, "output_bytes": cell.log.size,
                 "backgrounded": cell.backgrounded} for cell in self.running.values()]
        rows += [{"cell": cell.id, "status": QUEUED, "output_bytes": 0} for cell in self._waiting]
        for cell in unacknowledged():
            if cell in self._ended:
                log = self._logs.get(cell)
                rows.append({"cell": cell, "status": self._ended[cell],
                             "output_bytes": log.size if log else 0})
        return rows

    # --- from the api ---

    def execute(self, message: dict, request: bytes, refuse: str) -> None:
        """Takes a new cell; one that is known is never run again."""
        cell = message["cell"]
        if cell in self.running or any(waiting.id == cell for waiting in self._waiting):
            return
        if cell in self._ended:
            self._tell_again(cell)
            return
        if not refuse and len(self._waiting) >= MAX_QUEUED:
            refuse = f"{MAX_QUEUED} cells wait already"
        new = Cell(cell, request, message)
        if refuse:
            new.log = self._new_log(cell)
            new.started_at = _wall_ms()
            new.started = time.monotonic()
            self._end(new, "error", None, _error("Refused", refuse))
            return
        credit = message.get("credit") or 0
        if credit:
            self._readers.grant(cell, 0, credit, False)
        self._waiting.append(new)
        self._dispatch()

    def _tell_again(self, cell: str) -> None:
        payload = self._done.get(cell)
        if payload is None:
            payload = albedo_json.dumps({
                "t": "done", "cell": cell, "status": self._ended[cell], "value": None, "error": None,
                "output": "", "truncated": True, "output_bytes": 0, "started_at": 0, "ms": 0})
        self._tell(payload)

    def interrupt(self, cell: str, force: bool) -> None:
        """Acts only while that cell is queued or runs."""
        for waiting in self._waiting:
            if waiting.id == cell:
                waiting.cancelled = True
                return
        running = self.running.get(cell)
        if running is None:
            return
        if force:
            running.reason = running.reason or "asked"
            self._worker().kill("ended by force")
        else:
            self._interrupt(running, "asked")

    # --- running ---

    def _foreground(self) -> "Cell | None":
        """The cell that keeps others from starting."""
        for cell in self.running.values():
            if not (cell.awaits and cell.backgrounded):
                return cell
        return None

    def _dispatch(self) -> None:
        while self._waiting and self._foreground() is None and len(self.running) < MAX_BESIDE:
            cell = self._waiting.popleft()
            cell.log = self._new_log(cell.id)
            cell.started_at = _wall_ms()
            cell.started = time.monotonic()
            if cell.cancelled:
                self._end(cell, "interrupted", None, _error("KeyboardInterrupt", "interrupted before it started"))
                continue
            cell.state = RUNNING
            self.running[cell.id] = cell
            self._give_late_output(cell)
            try:
                self._worker().send_json(cell.request)
            except OSError as error:
                del self.running[cell.id]
                self._end(cell, "error", None, _error("WorkerEnded", f"no worker could be started: {error}"))
                continue
            cell.request = b""
            first = STARTED_SECONDS
            if cell.timeout_ms:
                first = min(first, cell.timeout_ms / 1000)
            cell.timer = self._loop.after(first, lambda cell=cell: self._on_young(cell))

    def _on_young(self, cell: Cell) -> None:
        cell.timer = None
        if not cell.told_started:
            cell.told_started = True
            self._tell({"t": "started", "cell": cell.id, "at": cell.started_at}, False)
        age = time.monotonic() - cell.started
        if cell.timeout_ms:
            cell.clock = self._loop.after(max(0.0, cell.timeout_ms / 1000 - age), lambda: self._on_deadline(cell))
        if cell.background_ms > 0:
            cell.timer = self._loop.after(max(0.0, cell.background_ms / 1000 - age),
                                          lambda: self._background(cell))

    def _on_deadline(self, cell: Cell) -> None:
        cell.clock = None
        self._interrupt(cell, "timeout")

    def _background(self, cell: Cell) -> None:
        if cell.backgrounded or cell.id not in self.running:
            return
        cell.timer = None
        cell.backgrounded = True
        self._worker().drain()
        self._tell({"t": "backgrounded", "cell": cell.id, "output": cell.log.preview(True),
                    "truncated": cell.log.size > albedo_output.PREVIEW_BYTES,
                    "output_bytes": cell.log.size}, False)
        self._dispatch()

    # --- interrupts ---

    def _interrupt(self, cell: Cell, reason: str) -> None:
        if cell.ladder is not None:
            return  # one is going on
        cell.reason = cell.reason or reason
        cell.step = 0
        self._climb(cell, time.monotonic())

    def _climb(self, cell: Cell, since: float) -> None:
        cell.ladder = None
        if cell.id not in self.running:
            return
        worker = self._worker()
        if cell.step < len(SIGINT_AT):
            cell.step += 1
            worker.send({"t": "interrupt", "cell": cell.id})
            newest = next(reversed(self.running)) == cell.id
            foreground = self._foreground()
            if foreground is cell or foreground is None:
                # Beside a cell in the foreground the message alone has to do: a signal would hit that one.
                worker.signal(_signal.SIGINT, whole_group=newest)
            text = f"SIGINT {cell.step} of {len(SIGINT_AT)} was sent"
            upcoming = SIGINT_AT[cell.step] if cell.step < len(SIGINT_AT) else GIVE_UP_AT
            cell.ladder = self._loop.after(max(0.0, since + upcoming - time.monotonic()),
                                           lambda: self._climb(cell, since))
            self._tell({"t": "interrupting", "cell": cell.id, "step": cell.step, "text": text}, False)
            return
        self._tell({"t": "interrupting", "cell": cell.id, "step": len(SIGINT_AT) + 1,
                    "text": "it did not react; `force` ends its worker and all variables with it"}, False)
        if cell.reason == "timeout":
            self._background(cell)

    # --- from the worker ---

    def on_awaits(self, cell: str) -> None:
        if cell in self.running:
            self.running[cell].awaits = True
            self._dispatch()

    def on_done(self, message: dict) -> None:
        cell = self.running.get(message.get("cell"))
        if cell is None:
            return
        self._worker().drain()
        status, error = message.get("status"), message.get("error")
        if status not in ("ok", "error", "interrupted"):
            status = "error"
        if status == "interrupted" and not cell.reason:
            status = "error"  # it raised KeyboardInterrupt itself
        if status == "interrupted" and cell.reason == "timeout" and isinstance(error, dict):
            error = {**error, "name": "TimeoutError", "message": f"it ran longer than {cell.timeout_ms} ms"}
        del self.running[cell.id]
        self._end(cell, status, message.get("value"), error, message.get("images"))
        self._dispatch()

    def on_worker_end(self, cause: str) -> None:
        """All that ran is over; what waits goes to the next worker."""
        ended = list(self.running.values())
        self.running.clear()
        for cell in ended:
            status = "interrupted" if cell.reason and cause == "ended by force" else "error"
            self._end(cell, status, None, _error(
                "WorkerEnded", f"the worker ended while this cell ran: {cause}. Its variables are gone."))
        self._dispatch()

    def _end(self, cell: Cell, status: str, value, error, images=None) -> None:
        for timer in (cell.timer, cell.clock, cell.ladder):
            self._loop.cancel(timer)
        log = cell.log
        message = {
            "t": "done", "cell": cell.id, "status": status, "value": value, "error": error,
            "output": log.preview(status != "ok"), "truncated": log.size > albedo_output.PREVIEW_BYTES,
            "output_bytes": log.size, "started_at": cell.started_at,
            "ms": round((time.monotonic() - cell.started) * 1000, 3)}
        if images:
            message["images"] = images
        payload = albedo_json.dumps(message)
        self._ended[cell.id] = status
        if len(self._ended) > KNOWN_IDS:
            self._ended.popitem(last=False)
        self._done[cell.id] = payload
        self._done_bytes += len(payload)
        while self._done_bytes > KEPT_DONE_BYTES and len(self._done) > 1:
            self._done_bytes -= len(self._done.popitem(last=False)[1])
        if log.size:
            self._readers.pump_one(cell.id)
        self._tell(payload)

    # --- output ---

    def _new_log(self, cell: str) -> albedo_output.OutputLog:
        log = albedo_output.OutputLog(self._log_path(cell), self._ring_bytes)
        self._logs[cell] = log
        if len(self._logs) > KEPT_LOGS:
            for old in list(self._logs):
                if old not in self.running and old != cell:
                    self._logs.pop(old).close()
                    self._readers.forget(old)
                    break
        return log

    def on_output(self, data: bytes) -> None:
        """Bytes from the pipe: the newest foreground cell's, else the newest that runs, else they wait
        for the next cell."""
        cell = self._foreground()
        if cell is None and self.running:
            cell = self.running[next(reversed(self.running))]
        if cell is None:
            self._late += data
            if len(self._late) > LATE_BYTES:
                self._late_lost += len(self._late) - LATE_BYTES
                del self._late[:-LATE_BYTES]
            return
        self._append(cell, data)

    def on_tagged(self, message: dict) -> None:
        cell = self.running.get(message.get("cell"))
        text = message.get("text")
        if cell is not None and isinstance(text, str):
            self._append(cell, text.encode("utf-8", "replace"))

    def _append(self, cell: Cell, data: bytes) -> None:
        cell.log.append(data)
        if self._pumping is None and time.monotonic() - cell.started < STARTED_SECONDS and \
                cell.log.size < 16384:
            # Most cells end at once: their output and their end leave in one write.
            self._pumping = self._loop.after(0.001, self.pump)
        elif self._pumping is None and not self._readers.appended(cell.id, cell.log, data):
            self.pump()
        if self._readers.holds(cell.id):
            self._worker().pause_output(True)

    def pump(self) -> None:
        """Sends output as far as credit and queue allow; lets the worker go on where it may."""
        self._loop.cancel(self._pumping)
        self._pumping = None
        self._readers.pump()
        self.look_at_back_pressure()

    def look_at_back_pressure(self) -> None:
        """Goes on reading once the reader has caught up, moved on or left."""
        if self.running and not any(self._readers.holds(cell) for cell in self.running):
            self._worker().pause_output(False)

    def _give_late_output(self, cell: Cell) -> None:
        if self._late:
            if self._late_lost:
                cell.log.append(f"[{self._late_lost} bytes of late output left out]\n".encode())
            cell.log.append(bytes(self._late))
            self._late.clear()
            self._late_lost = 0

    def close(self) -> None:
        for log in self._logs.values():
            log.close()


def _wall_ms() -> int:
    return int(time.time() * 1000)


def _error(name: str, message: str) -> dict:
    return {"name": name, "message": message, "traceback": f"{name}: {message}\n"}
