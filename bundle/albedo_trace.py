"""What is told of an exception: its name, its words, and a traceback with the cell's own lines.

Imports the standard traceback package only when there is something to tell.
"""
import sys
from _collections import deque

MAX_TRACEBACK_CHARACTERS = 64 * 1024
MAX_MESSAGE_CHARACTERS = 8 * 1024
KEPT_SOURCES = 512
CELL_PREFIX = "<cell "


class Sources:
    """The text of the newest cells, given to linecache as soon as somebody needs it."""

    def __init__(self) -> None:
        self._texts: dict = {}
        self._order: deque = deque()
        self._given = 0

    def add(self, filename: str, text: str) -> None:
        self._texts[filename] = text
        self._order.append(filename)
        if len(self._order) > KEPT_SOURCES:
            old = self._order.popleft()
            self._texts.pop(old, None)
            if "linecache" in sys.modules:
                sys.modules["linecache"].cache.pop(old, None)
        if "linecache" in sys.modules:
            self._give(filename)

    def _give(self, filename: str) -> None:
        text = self._texts[filename]
        sys.modules["linecache"].cache[filename] = (len(text), None, text.splitlines(True), filename)

    def give_all(self) -> None:
        import linecache
        for filename in self._texts:
            if filename not in linecache.cache:
                self._give(filename)


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:
        return f"<its text failed: {type(broken).__name__}>"


def _from_cell_on(trace):
    """The traceback without our own frames above the cell's first; None when none is the cell's."""
    while trace is not None and not trace.tb_frame.f_code.co_filename.startswith(CELL_PREFIX):
        trace = trace.tb_next
    return trace


def describe(error: BaseException, sources: Sources) -> dict:
    """{"name", "message", "traceback"}, each bounded."""
    name = type(error).__name__
    message = _words(error)
    try:
        import traceback
        sources.give_all()
        trace = _from_cell_on(error.__traceback__)
        if isinstance(error, SyntaxError) and (error.filename or "").startswith(CELL_PREFIX):
            trace = None
        lines = traceback.format_exception(type(error), error, trace)
        text = "".join(lines)
    except BaseException as broken:
        text = f"{name}: {message}\n(its traceback failed: {type(broken).__name__})\n"
    if len(text) > MAX_TRACEBACK_CHARACTERS:
        half = MAX_TRACEBACK_CHARACTERS // 2
        text = f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
    if len(message) > MAX_MESSAGE_CHARACTERS:
        message = message[:MAX_MESSAGE_CHARACTERS] + "..."
    return {"name": name, "message": message, "traceback": text}
