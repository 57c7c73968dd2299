"""Work of the bridge that may take time: questions about folders, looks at dead kernels.

Each runs in a thread; its answer is handed back in the loop. A file server that does not answer costs
one of the threads, and no kernel anything.
"""
from __future__ import annotations

import _thread
import os
from _collections import deque

import albedo_loop

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable

MAX_THREADS = 16
MAX_WAITING = 256


class Answers:
    """`deliver(answer, then)` is called in the loop's thread."""

    def __init__(self, loop: albedo_loop.Loop, deliver: Callable) -> None:
        self._deliver = deliver
        self._ready: deque = deque()
        self._waiting: deque = deque()
        self._threads = 0
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        loop.watch(self._wake_read, albedo_loop.READ, self._on_wake)

    def ask(self, request: dict) -> None:
        """A `call` frame's question; its answer carries the same id."""
        number = request.get("id")
        if not isinstance(number, int) or not 0 < number < 2 ** 64:
            raise ValueError("id")

        def work() -> dict:
            import albedo_calls
            return {"id": number, **albedo_calls.handle(request)}
        if len(self._waiting) >= MAX_WAITING:
            self._deliver({"id": number, "ok": False, "code": "overloaded",
                           "error": f"{MAX_WAITING} questions wait already"}, None)
            return
        self._begin(work, None, number)

    def work(self, work: Callable, then: Callable) -> None:
        """Runs `work()` in a thread and `then(its result)` in the loop."""
        self._begin(work, then, None)

    def _begin(self, work: Callable, then, number) -> None:
        if self._threads >= MAX_THREADS:
            self._waiting.append((work, then, number))
            return
        self._threads += 1
        _thread.start_new_thread(self._run, (work, then, number))

    def _run(self, work: Callable, then, number) -> None:
        try:
            answer = work()
        except BaseException as error:
            words = f"{type(error).__name__}: {error}"
            answer = {"id": number, "ok": False, "code": "failed", "error": words,
                      "reason": "dropped", "detail": words}
        self._ready.append((answer, then))
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:
            pass  # it is full, so the loop wakes anyway

    def _on_wake(self, _events: int) -> None:
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            return
        while self._ready:
            answer, then = self._ready.popleft()
            self._threads -= 1
            if self._waiting:
                self._begin(*self._waiting.popleft())
            self._deliver(answer, then)
