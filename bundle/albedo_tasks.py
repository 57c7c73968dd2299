"""Cells that await: one event loop kept over cells, and interrupts that reach what waits in it.

The loop turns while a cell awaits and while the worker is idle; a cell without `await` holds it. An
interrupt names its cell: code of that cell that holds the loop gets KeyboardInterrupt where it
is, tasks of the cell that wait are cancelled, and what swallows its cancellation is ended.
"""
from __future__ import annotations

import asyncio
import asyncio.events
import contextvars
import weakref

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Any, Callable, Coroutine

CELL: contextvars.ContextVar = contextvars.ContextVar("albedo_cell", default=None)
SWALLOW_SECONDS = 0.5
_RUN_HANDLE = asyncio.events.Handle._run.__code__


class Tasks:
    """`ended(cell, outcome)`: outcome is a function that returns the result or raises its error."""

    def __init__(self, channel, ended: Callable) -> None:
        self._channel = channel
        self._ended = ended
        self.loop = asyncio.new_event_loop()
        self.loop.set_task_factory(self._make_task)
        self.loop.set_exception_handler(self._on_loop_error)
        asyncio.set_event_loop(self.loop)
        self._owned: dict = {}  # cell: weak set of tasks made in its context
        self._main: dict = {}  # cell: its own task
        self._interrupted: set = set()
        self._abandoned: weakref.WeakSet = weakref.WeakSet()
        self._futures: dict = {}  # ask number: future
        channel.on_answer_ready = self._on_answer_ready
        self.loop.add_reader(channel.fd, self._on_message)

    def _make_task(self, loop, coroutine, **more) -> asyncio.Task:
        task = asyncio.Task(coroutine, loop=loop, **more)
        context = more.get("context")
        cell = context.get(CELL) if context is not None else CELL.get()
        if cell is not None:
            self._owned.setdefault(cell, weakref.WeakSet()).add(task)
        return task

    def _on_loop_error(self, loop, context: dict) -> None:
        if context.get("task") in self._abandoned or context.get("future") in self._abandoned:
            return
        loop.default_exception_handler(context)

    @staticmethod
    def current_cell() -> "str | None":
        """The cell whose code runs, as far as its context tells."""
        return CELL.get()

    # --- running ---

    def start(self, cell: str, coroutine: Coroutine) -> None:
        context = contextvars.copy_context()
        context.run(CELL.set, cell)
        task = self.loop.create_task(coroutine, context=context)
        self._main[cell] = task
        task.add_done_callback(lambda done: self._report(cell, done))

    @property
    def live(self) -> list:
        """Cells that have not ended, oldest first."""
        return list(self._main)

    @property
    def busy(self) -> bool:
        """Whether the loop has anything to do while no cell runs."""
        loop = self.loop
        if self._main or asyncio.all_tasks(loop):
            return True
        return bool(getattr(loop, "_scheduled", ())) or len(loop._selector.get_map()) > 2

    def run_until_message(self) -> None:
        """Turns the loop until the keeper has said something or the last cell has ended."""
        while not self._channel.inbox:
            try:
                self.loop.run_forever()
            except KeyboardInterrupt:
                self._cancel_interrupted()
                continue
            except SystemExit:
                continue  # the task that raised it has it as its result
            break

    def _on_message(self) -> None:
        self._channel.fill()
        self._take_interrupts()
        self._cancel_interrupted()
        if self._channel.inbox:
            self.loop.stop()

    def _report(self, cell: str, task: asyncio.Task) -> None:
        if self._main.get(cell) is not task:
            return
        del self._main[cell]
        interrupted = cell in self._interrupted
        self._interrupted.discard(cell)

        def outcome() -> Any:
            try:
                return task.result()
            except asyncio.CancelledError as cancelled:
                if interrupted:
                    raise KeyboardInterrupt().with_traceback(cancelled.__traceback__) from None
                raise
        self._ended(cell, outcome)
        if not self._main:
            self.loop.stop()

    # --- interrupts ---

    def _take_interrupts(self) -> None:
        """Marks the cells that interrupts among the messages name."""
        inbox = self._channel.inbox
        for message in [message for message in inbox if message.get("t") == "interrupt"]:
            inbox.remove(message)
            if message.get("cell") in self._main:
                self._interrupted.add(message["cell"])

    def interrupt(self, cell: str) -> None:
        """An interrupt that was read from the messages by somebody else."""
        if cell in self._main:
            self._interrupted.add(cell)
            self._cancel_interrupted()

    def on_sigint(self, _number: int, frame) -> None:
        """The SIGINT handler while the loop turns."""
        self._channel.fill()
        self._take_interrupts()
        if CELL.get() in self._interrupted and _in_a_step(frame):
            raise KeyboardInterrupt
        self.loop.call_soon_threadsafe(self._cancel_interrupted)

    def _cancel_interrupted(self) -> None:
        for cell in self._interrupted:
            for task in list(self._owned.get(cell, ())):
                if not task.done():
                    task.cancel()
            self.loop.call_later(SWALLOW_SECONDS, self._end_swallowers, cell)

    def _end_swallowers(self, cell: str) -> None:
        """Tasks that caught their cancellation and wait again end where they wait."""
        if cell not in self._interrupted:
            return
        main = self._main.get(cell)
        for task in [task for task in self._owned.get(cell, ()) if task is not main] + [main]:
            if task is None or task.done():
                continue
            coroutine = task.get_coro()
            self._abandoned.add(task)
            task._log_destroy_pending = False
            try:
                coroutine.throw(KeyboardInterrupt())
                coroutine.close()
            except BaseException:
                pass
            task.cancel()  # wakes it, so that it finds its code ended and is done
            if task is main:
                del self._main[cell]
                self._interrupted.discard(cell)
                self._ended(cell, _raise_interrupt)
                if not self._main:
                    self.loop.stop()

    # --- questions to the keeper, awaited ---

    def _on_answer_ready(self, ask: int) -> None:
        future = self._futures.pop(ask, None)
        if future is not None:
            self.loop.call_soon_threadsafe(lambda: future.done() or future.set_result(None))

    async def ask(self, method: str, args: dict) -> Any:
        future = self.loop.create_future()
        ask = self._channel.start_ask(method, args)
        self._futures[ask] = future
        try:
            message = self._channel.take_answer(ask)
            if message is None:
                await future
                message = self._channel.take_answer(ask)
            return message.get("value")
        finally:
            self._futures.pop(ask, None)
            self._channel.forget(ask)


def _raise_interrupt() -> None:
    raise KeyboardInterrupt


def _in_a_step(frame) -> bool:
    """Whether the loop is inside somebody's code, not in its own."""
    while frame is not None:
        frame = frame.f_back
        if frame is not None and frame.f_code is _RUN_HANDLE:
            return True
    return False
