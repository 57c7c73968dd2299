"""One wait per process: descriptors and deadlines of keeper and bridge.

poll(2) and no more: it is on Linux and macOS, and starts in no time. A handler is called with the
events; it may watch, unwatch and set timers freely. Times are time.monotonic() seconds.
"""
from __future__ import annotations

import select
import time

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable

READ = select.POLLIN
WRITE = select.POLLOUT
ENDED = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Timer:
    """A deadline that can be taken back."""

    __slots__ = ("when", "call")

    def __init__(self, when: float, call: Callable[[], None]) -> None:
        self.when = when
        self.call = call


class Loop:
    def __init__(self) -> None:
        self._poll = select.poll()
        self._handlers: dict = {}
        self._timers: list = []
        self.running = True

    def watch(self, descriptor: int, events: int, handler: Callable[[int], None]) -> None:
        """Also changes what is watched for."""
        self._poll.register(descriptor, events)
        self._handlers[descriptor] = handler

    def unwatch(self, descriptor: int) -> None:
        """Before the descriptor is closed. One that is not watched does no harm."""
        if self._handlers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        timer = Timer(time.monotonic() + seconds, call)
        self._timers.append(timer)
        return timer

    def cancel(self, timer: "Timer | None") -> None:
        if timer is not None and timer in self._timers:
            self._timers.remove(timer)

    def _run_due(self) -> "float | None":
        """Calls what is due; milliseconds until the next deadline, None if there is none."""
        if not self._timers:
            return None
        now = time.monotonic()
        due = [timer for timer in self._timers if timer.when <= now]
        for timer in due:
            if timer in self._timers:
                self._timers.remove(timer)
                timer.call()
        if not self._timers:
            return None
        wait = min(timer.when for timer in self._timers) - time.monotonic()
        return wait * 1000 + 0.999 if wait > 0 else 0

    def turn(self) -> None:
        """Waits for events or the next deadline, handles them."""
        wait = self._run_due()
        if not self.running:  # that was the end: nothing may ever come to wait for
            return
        ready = self._poll.poll(wait)
        handlers = self._handlers
        for descriptor, events in ready:
            handler = handlers.get(descriptor)
            if handler is not None:  # a handler before it may have ended it
                handler(events)

    def run(self) -> None:
        while self.running:
            self.turn()
