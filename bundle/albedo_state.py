"""A namespace on disk: what a kernel that is released keeps of its names for the next one.

Definitions and imports at the top level of cells are kept as source and run again; every other value
is pickled by itself. One value or definition that fails costs itself alone.

    header: one line of JSON {"version", "folder", "definitions": [{"names", "source"}],
                              "values": [{"name", "bytes"}]}
    then the pickles, in the header's order

The file is written whole or not at all, 0600. It is the user's own, on the user's own host, and is
trusted like their code: loading it runs what their classes define.
"""
from __future__ import annotations

import io
import os
import sys
import time
import types

import albedo_json

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable

VERSION = 1
VALUE_BYTES = 8 * 1024 * 1024
ALL_VALUES_BYTES = 64 * 1024 * 1024
SOURCE_BYTES = 32 * 1024  # of one definition
ALL_SOURCES_BYTES = 256 * 1024
HEADER_BYTES = 4 * 1024 * 1024
KEPT_SECONDS = 14 * 24 * 3600
LISTED = 64  # names in a report, of each kind
FOLDER = "state"
WORDS = ("import", "def", "class")


class Definitions:
    """The text of cells that may define something, newest last, bounded."""

    def __init__(self) -> None:
        self._cells: dict = {}
        self._bytes = 0

    def add(self, filename: str, code: str) -> None:
        if not any(word in code for word in WORDS):
            return
        self._cells[filename] = code
        self._bytes += len(code)
        while self._bytes > 4 * ALL_SOURCES_BYTES:
            oldest = next(iter(self._cells))
            self._bytes -= len(self._cells.pop(oldest))

    def living(self, namespace: dict) -> list:
        """[{"names", "source"}] in order: the latest definition of each name that still means it."""
        import ast
        latest: dict = {}
        for filename, code in self._cells.items():
            try:
                tree = ast.parse(code)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            for node in tree.body:
                for name, still in _defined(node, filename, namespace):
                    latest.pop(name, None)
                    if still:
                        latest[name] = _text_of(node, code)
        found: dict = {}
        for name, source in latest.items():
            found.setdefault(source, []).append(name)
        return [{"names": names, "source": source} for source, names in found.items()]


def _text_of(node, code: str) -> str:
    """The statement's own text, decorators included."""
    import ast
    decorators = getattr(node, "decorator_list", None)
    if not decorators:
        return ast.get_source_segment(code, node) or ""
    return "".join(code.splitlines(True)[decorators[0].lineno - 1:node.end_lineno])


def _defined(node, filename: str, namespace: dict) -> list:
    """[(name, whether the namespace still holds what this statement made of it)]."""
    import ast
    if isinstance(node, ast.Import):
        return [(alias.asname or alias.name.split(".")[0],
                 _is_module(namespace.get(alias.asname or alias.name.split(".")[0]),
                            alias.name if alias.asname else alias.name.split(".")[0]))
                for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level and node.module not in (None, "__future__"):
        module = sys.modules.get(node.module)
        return [(alias.asname or alias.name,
                 module is not None and (alias.asname or alias.name) in namespace and
                 getattr(module, alias.name, _NOTHING) is namespace[alias.asname or alias.name])
                for alias in node.names if alias.name != "*"]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [(node.name, _is_from(namespace.get(node.name), filename))]
    if isinstance(node, ast.ClassDef):
        value = namespace.get(node.name)
        return [(node.name, isinstance(value, type) and value.__name__ == node.name and
                 _class_is_from(value, filename))]
    return []


_NOTHING = object()


def _is_module(value, name: str) -> bool:
    return isinstance(value, types.ModuleType) and sys.modules.get(name) is value


def _is_from(value, filename: str) -> bool:
    """A function that this cell's text made, decorated or not."""
    for _ in range(32):
        code = getattr(value, "__code__", None)
        if code is not None:
            return getattr(code, "co_filename", "") == filename
        wrapped = getattr(value, "__wrapped__", None) or getattr(value, "func", None)
        if wrapped is None:
            return False
        value = wrapped
    return False


def _class_is_from(value: type, filename: str) -> bool:
    """One without functions of its own cannot be told from an older one: the newest text counts."""
    codes = [code for code in (getattr(member, "__code__", None) for member in vars(value).values()) if code]
    own = [code for code in codes if code.co_filename.startswith("<")]
    return not own or any(code.co_filename == filename for code in own)


class _TooLarge(Exception):
    pass


class _Bounded(io.BytesIO):
    """A buffer that refuses to grow past its bound."""

    def __init__(self, bound: int) -> None:
        super().__init__()
        self._bound = bound

    def write(self, data) -> int:
        if self.tell() + len(data) > self._bound:
            raise _TooLarge
        return super().write(data)


def _why(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:200]
    except BaseException:
        return type(error).__name__


def save(path: str, folder: str, namespace: dict, definitions: Definitions) -> dict:
    """Writes the state file. {"saved", "defined", "skipped": [[name, why]], "bytes", "count"}.

    Raises OSError when it cannot be written; then no file is left."""
    import pickle
    _forget_old(os.path.dirname(path))
    living = definitions.living(namespace)
    kept, skipped, total = [], [], 0
    for entry in reversed(living):  # the newest are worth most
        size = len(entry["source"])
        if size > SOURCE_BYTES or total + size > ALL_SOURCES_BYTES:
            skipped += [[name, "its source is too long"] for name in entry["names"]]
        else:
            total += size
            kept.append(entry)
    kept.reverse()
    defined = {name for entry in living for name in entry["names"]}
    values, pickles, total = [], [], 0
    for name, value in list(namespace.items()):
        if name in defined or name == "_" or (name.startswith("__") and name.endswith("__")):
            continue
        if isinstance(value, types.ModuleType):
            skipped.append([name, "a module that no cell imports by this name"])
            continue
        if isinstance(value, (type, types.FunctionType)) and getattr(value, "__module__", "") == "__main__":
            skipped.append([name, "made by code that is not a definition of its own"])
            continue
        buffer = _Bounded(min(VALUE_BYTES, ALL_VALUES_BYTES - total))
        try:
            pickle.Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
        except _TooLarge:
            skipped.append([name, "too large" if total + VALUE_BYTES <= ALL_VALUES_BYTES
                            else "no room is left"])
            continue
        except BaseException as error:
            skipped.append([name, _why(error)])
            continue
        data = buffer.getvalue()
        total += len(data)
        values.append({"name": name, "bytes": len(data)})
        pickles.append(data)
    header = albedo_json.dumps({"version": VERSION, "folder": folder, "definitions": kept, "values": values})
    _write(path, [header, b"\n", *pickles])
    names = [value["name"] for value in values]
    return {"saved": names[:LISTED], "defined": sorted(defined)[:LISTED], "skipped": skipped[:LISTED],
            "count": len(names) + len(defined), "bytes": len(header) + total}


def _write(path: str, parts: list) -> None:
    part = path + ".part"
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        for data in parts:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view):]
        os.fsync(descriptor)
    except BaseException:
        os.unlink(part)
        raise
    finally:
        os.close(descriptor)
    os.rename(part, path)


def restore(path: str, folder: str, namespace: dict, remember: Callable) -> "dict | None":
    """Puts back what the file holds and removes it. None where there is none for this folder.

    `remember(filename, source)` hears of each definition before it runs. Never raises.
    {"restored", "defined", "skipped": [[name, why]], "count", "seconds_ago"}"""
    import pickle
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    restored, defined, skipped, age = [], [], [], 0

    def define(entries: list, last: bool) -> list:
        failed = []
        for entry in entries:
            try:
                remember(entry["filename"], entry["source"])
                exec(compile(entry["source"], entry["filename"], "exec", dont_inherit=True), namespace)
                defined.extend(entry["names"])
            except BaseException as error:
                failed.append(entry)
                if last:
                    skipped.extend([name, _why(error)] for name in entry["names"])
        return failed

    try:
        with os.fdopen(descriptor, "rb") as file:
            age = max(0, int(time.time() - os.fstat(file.fileno()).st_mtime))
            header = albedo_json.loads(file.readline(HEADER_BYTES))
            if header.get("version") != VERSION or header.get("folder") != folder:
                return None
            entries = [{**entry, "filename": f"<restored {number}>"}
                       for number, entry in enumerate(header["definitions"], 1)]
            failed = define(entries, False)
            for value in header["values"]:
                name, data = value["name"], file.read(int(value["bytes"]))
                try:
                    namespace[name] = pickle.loads(data)
                    restored.append(name)
                except BaseException as error:
                    skipped.append([name, _why(error)])
            define(failed, True)  # a default or a base class may have been a value
    except BaseException as error:
        skipped.append(["the rest", _why(error)])
    forget(path)
    return {"restored": restored[:LISTED], "defined": defined[:LISTED], "skipped": skipped[:LISTED],
            "count": len(restored) + len(defined), "seconds_ago": age}


def forget(path: str) -> None:
    """What it holds is not true any more."""
    try:
        os.unlink(path)
    except OSError:
        pass


def _forget_old(folder: str) -> None:
    """Removes states that nobody came back for."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        try:
            if time.time() - os.lstat(path).st_mtime > KEPT_SECONDS:
                os.unlink(path)
        except OSError:
            pass
