"""A value as text, bounded: at most 4000 characters and 50 entries a container.

A broken, endless or enormous repr costs the cell its value, never the worker.
"""
from __future__ import annotations

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Any

MAX_CHARACTERS = 4000
MAX_ENTRIES = 50
MAX_NODES = 2000
MAX_DEPTH = 30
MAX_INTEGER_BITS = 13000  # 3900 digits: under the interpreter's own limit for turning into text


def _fits(value: Any, left: list, depth: int) -> bool:
    """Whether the plain repr of built-in containers stays within the bounds."""
    left[0] -= 1
    if left[0] < 0 or depth > MAX_DEPTH:
        return False
    kind = type(value)
    if kind is str or kind is bytes or kind is bytearray:
        left[0] -= len(value) // 20
        return len(value) <= MAX_CHARACTERS
    if kind is int:
        return value.bit_length() <= MAX_INTEGER_BITS
    if kind is list or kind is tuple or kind is set or kind is frozenset:
        return len(value) <= MAX_ENTRIES and all(_fits(item, left, depth + 1) for item in value)
    if kind is dict:
        return len(value) <= MAX_ENTRIES and all(
            _fits(key, left, depth + 1) and _fits(item, left, depth + 1) for key, item in value.items())
    return True


def _shortened(value: Any) -> str:
    import reprlib
    short = reprlib.Repr()
    short.maxlevel = 8
    for name in ("maxlist", "maxtuple", "maxset", "maxfrozenset", "maxdeque", "maxarray", "maxdict"):
        setattr(short, name, MAX_ENTRIES)
    short.maxstring = short.maxother = MAX_CHARACTERS
    short.maxlong = 1000
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        return f"{hex(value)[:1000]}... (an integer of {value.bit_length()} bits)"
    if isinstance(value, (str, bytes, bytearray)):
        text = repr(value[:MAX_CHARACTERS])
        return f"{text}... ({len(value) - MAX_CHARACTERS} more)"
    return short.repr(value)


def describe(value: Any) -> str:
    """The text shown for a value. Only KeyboardInterrupt and SystemExit come out of it."""
    try:
        text = repr(value) if _fits(value, [MAX_NODES], 0) else _shortened(value)
        if type(text) is not str:
            text = str.__str__(text)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        text = f"<{type(value).__name__} object whose repr failed: {type(error).__name__}>"
    if len(text) > MAX_CHARACTERS:
        text = f"{text[:MAX_CHARACTERS]}... ({len(text) - MAX_CHARACTERS} more characters)"
    return text
