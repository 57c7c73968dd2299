"""JSON that is always valid, without the start-up time of the json package.

Python can hold and print what JSON can not: NaN, Infinity, lone surrogates, integers of thousands of
digits, endless nesting. dumps() writes a stand-in for each, so that a strict reader takes all we send.
The C parts of the standard json package are used as they are there; where a version of Python has
them otherwise, the package itself is.
"""
from __future__ import annotations

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Any

MAX_DEPTH = 100


def _default(value: Any) -> str:
    return repr(value)[:1000]


class _Context:
    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    memo: dict = {}

    @staticmethod
    def parse_constant(name: str) -> None:
        raise ValueError(f"{name} is not JSON")


try:
    import _json

    _scan = _json.make_scanner(_Context)
    _encoder = _json.make_encoder(
        None, _default, _json.encode_basestring, None, ": ", ", ", False, False, False)

    def _plain_dumps(value: Any) -> str:
        return "".join(_encoder(value, 0))

    def _plain_loads(text: str) -> Any:
        text = text.strip(" \t\r\n")
        try:
            value, end = _scan(text, 0)
        except (StopIteration, SystemError):  # the latter where json.decoder is not imported, in 3.11
            raise ValueError("not JSON") from None
        if end != len(text):
            raise ValueError("more than one JSON value")
        return value

    if _plain_loads(_plain_dumps({"a": ["\n\u00e9", 1, None]})) != {"a": ["\n\u00e9", 1, None]}:
        raise ImportError("_json is not what it was")
except (ImportError, AttributeError, TypeError):
    import json

    def _plain_dumps(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, default=_default)

    def _plain_loads(text: str) -> Any:
        return json.loads(text)


def valid_text(text: str) -> str:
    """The text with U+FFFD for each surrogate that stands alone; pairs become the character they mean."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _cleaned(value: Any, depth: int = 0) -> Any:
    """A copy that JSON can hold."""
    if depth > MAX_DEPTH:
        return "..."
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return valid_text(str.__str__(value))
    if isinstance(value, int):
        return int(value) if -(2 ** 63) <= value < 2 ** 64 else hex(value)[:1000]
    if isinstance(value, float):
        return float(value) if value - value == 0 else str(float(value))
    if isinstance(value, dict):
        return {valid_text(key if isinstance(key, str) else str(_cleaned(key))): _cleaned(item, depth + 1)
                for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_cleaned(item, depth + 1) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    return valid_text(_default(value))


def dumps(value: Any) -> bytes:
    """Valid JSON in valid UTF-8, whatever the value holds."""
    try:
        return _plain_dumps(value).encode()
    except (ValueError, TypeError, RecursionError):  # UnicodeEncodeError is a ValueError
        return _plain_dumps(_cleaned(value)).encode()


def loads(data: bytes) -> Any:
    """Raises ValueError for whatever is not one JSON value in UTF-8."""
    try:
        return _plain_loads(data.decode())
    except RecursionError:
        raise ValueError("JSON nested too deep") from None
