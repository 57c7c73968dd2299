"""A cell's text as code: compiled whole before anything runs, its last expression apart.

Pure. It knows nothing of how code runs.
"""
from __future__ import annotations

import _ast

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from types import CodeType

TOP_LEVEL_AWAIT = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
ONLY_AST = 0x400  # ast.PyCF_ONLY_AST
FUTURES = 0x1FC0000  # the bits of `from __future__ import ...` in co_flags
CO_COROUTINE = 0x80 | 0x200  # a coroutine, or an asynchronous generator


class Cell:
    __slots__ = ("body", "last", "awaits", "futures")

    def __init__(self, body: CodeType | None, last: CodeType | None, awaits: bool, futures: int) -> None:
        self.body = body  # all but the last expression
        self.last = last  # the last expression
        self.awaits = awaits
        self.futures = futures  # flags that later cells go on with, as at Python's own prompt


def compile_cell(code: str, filename: str, futures: int = 0) -> Cell:
    """Raises SyntaxError, ValueError, RecursionError, MemoryError, OverflowError as compile() does."""
    flags = TOP_LEVEL_AWAIT | futures
    tree = compile(code, filename, "exec", flags | ONLY_AST, True)
    last = None
    if tree.body and isinstance(tree.body[-1], _ast.Expr):
        last = _ast.Expression(tree.body.pop().value)
    body_code = None
    if tree.body or last is None:
        body_code = compile(tree, filename, "exec", flags, True)
        flags |= body_code.co_flags & FUTURES
    last_code = compile(last, filename, "eval", flags, True) if last is not None else None
    awaits = any(part is not None and part.co_flags & CO_COROUTINE for part in (body_code, last_code))
    return Cell(body_code, last_code, awaits, flags & FUTURES)
