"""What code in cells asks of the keeper: jobs, which it answers itself, and calls for the daemon.

A call is numbered over the kernel's life and answered once, however often the connection breaks; an
answer for a worker that has ended reaches nobody.
"""
from __future__ import annotations

import os

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable


class Asks:
    def __init__(self, jobs, tell: Callable) -> None:
        self._jobs = jobs
        self._tell = tell
        self._calls: dict = {}  # call number: the worker's ask
        self._next_call = 1

    def ask(self, worker, message: dict) -> None:
        """A question of that worker's. It is answered now or later, or refused with words."""
        ask, method, args = message.get("ask"), message.get("method"), message.get("args") or {}

        def answer(value) -> None:
            if worker.alive:
                worker.send({"t": "answer", "ask": ask, "ok": True, "value": value})
        try:
            if method == "call":
                call = self._next_call
                self._next_call += 1
                self._calls[call] = ask
                self._tell({"t": "call", "call": call, "method": args["method"], "args": args["args"]})
            else:
                self._jobs.ask(method, args, answer)
        except OSError as error:
            worker.send({"t": "answer", "ask": ask, "ok": False, "error": error.strerror or str(error),
                         "errno": error.errno, "filename": os.fsdecode(error.filename or "")})
        except (LookupError, ValueError, TypeError, AttributeError) as error:
            worker.send({"t": "answer", "ask": ask, "ok": False, "error": str(error)})

    def answered(self, worker, message: dict) -> None:
        """The daemon's answer to a call."""
        ask = self._calls.pop(message.get("call"), None)
        if ask is not None and worker.alive:
            worker.send({"t": "answer", "ask": ask, "ok": bool(message.get("ok")),
                         "value": message.get("value"), "error": message.get("error")})

    def forget(self) -> None:
        """The worker that asked has ended."""
        self._calls.clear()
        self._jobs.forget_waiters()
