"""What a folder on this machine holds: the `list`, `repo` and `preview` questions.

`handle(request)` takes `{"op", "path"}` (or `raw`, see asked_path) and gives a dictionary with `"ok"`. Looking changes nothing
and runs nothing of the folder's (see albedo_vcs). Nothing but folders and file names is opened, so
FIFOs, sockets and devices do no harm. `path` is absolute, or `~` or `~/x` for this user's home.
Names that are not UTF-8 are shown with U+FFFD, and `raw` beside them holds the name percent-encoded.
"""

from __future__ import annotations

import heapq
import itertools
import os
import stat
from _thread import allocate_lock

import albedo_vcs
from albedo_command import CommandFailed

MAX_LISTED = 2000
MAX_LOOKED_AT = 20_000  # names of one folder in a preview's tree
TREE_ENTRIES = 12
TREE_CHILDREN = 4
LANGUAGES = 4


class Refused(Exception):
    """A question that cannot be answered; `code` is `invalid` or `not_found`."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def handle(request: dict) -> dict:
    """The answer to one question. Callers asking the same at the same time share one look."""
    op = request.get("op")
    question = {"list": _list, "repo": _repo, "preview": _preview}.get(op)
    if question is None:
        return {"ok": False, "code": "invalid", "error": f"no such question: {op}"}
    try:
        path = absolute(asked_path(request))
        return _shared.answer((op, path), lambda: {"ok": True, **question(path)})
    except Refused as refusal:
        return {"ok": False, "code": refusal.code, "error": str(refusal)}


def home() -> str:
    """$HOME as it is spelled, without a trailing slash."""
    return os.path.expanduser("~").rstrip("/") or "/"


def asked_path(request: dict) -> object:
    """`path`, or the bytes that `raw` gives percent-encoded: not every name is UTF-8."""
    raw = request.get("raw")
    if not isinstance(raw, str):
        return request.get("path")
    from urllib.parse import unquote_to_bytes
    return os.fsdecode(unquote_to_bytes(raw))


def absolute(path: object) -> str:
    """The folder meant, absolute and normal. Raises Refused."""
    if not isinstance(path, str) or "\0" in path:
        raise Refused("invalid", "a path is a text without NUL")
    if path == "~" or path.startswith("~/"):
        path = home() + path[1:]
    if not path.startswith("/"):
        raise Refused("invalid", f"{path} must be absolute")
    normal = os.path.normpath(path)
    return "/" + normal.lstrip("/")


class _Looks:
    """Looks under way, so that callers beside one another share one."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._running: dict[tuple, _Look] = {}

    def answer(self, key: tuple, look) -> dict:
        with self._lock:
            running = self._running.get(key)
            mine = running is None
            if mine:
                running = self._running[key] = _Look()
        if not mine:
            with running.done:
                pass
            if running.failure is not None:
                raise running.failure
            return running.result
        try:
            running.result = look()
            return running.result
        except BaseException as failure:
            running.failure = failure
            raise
        finally:
            with self._lock:
                del self._running[key]
            running.done.release()


class _Look:
    def __init__(self) -> None:
        self.done = allocate_lock()  # held while it is under way
        self.done.acquire()
        self.result: dict = {}
        self.failure: BaseException | None = None


_shared = _Looks()


# --- list --------------------------------------------------------------------------------------


def _list(path: str) -> dict:
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise Refused("not_found", f"{shown(path)} is not a directory") from None
    except OSError as fault:
        raise Refused("not_found", f"{shown(path)}: {fault.strerror}") from None
    try:
        # By the open folder, so that the path to it is not walked again for each entry.
        with os.scandir(folder) as found:
            nearest = heapq.nsmallest(
                MAX_LISTED + 1, (entry for entry in found if _is_folder(entry)), key=_by_name
            )
        entries = [_listed(folder, entry) for entry in nearest[:MAX_LISTED]]
    except OSError as fault:
        raise Refused("not_found", f"{shown(path)}: {fault.strerror}") from None
    finally:
        os.close(folder)
    return {
        "path": shown(path), "home": shown(home()),
        "truncated": len(nearest) > MAX_LISTED, "entries": entries,
    }


def _listed(folder: int, entry: os.DirEntry) -> dict:
    name = entry.name
    shape = named(name)
    try:
        state = entry.stat()
        shape["modified"] = int(state.st_mtime * 1000)
    except OSError:
        state = None
        shape["modified"] = None
    shape["hidden"] = name.startswith(".")
    shape["vcs"] = albedo_vcs.kind_in(folder, name, state)
    return shape


def _is_folder(entry: os.DirEntry) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads nowhere, a folder without permission
        return False


def _by_name(entry: os.DirEntry) -> tuple[str, str]:
    return entry.name.casefold(), entry.name


# --- repo and preview --------------------------------------------------------------------------


def _repo(path: str) -> dict:
    _require_folder(path)
    repository = albedo_vcs.find(path)
    if repository is None:
        return {"path": shown(path), "repo": None}
    albedo_vcs.examine(repository)
    return {"path": shown(path), "repo": _facts(repository)}


def _facts(repository: albedo_vcs.Repository) -> dict:
    return {**repository.facts, "root": shown(repository.root)}


def _preview(path: str) -> dict:
    _require_folder(path)
    answer: dict = {"path": shown(path), "repo": None, "languages": [], "tree": None}
    repository = albedo_vcs.find(path)
    if repository is None:
        answer["tree"] = _tree_of_folder(path)
        return answer
    albedo_vcs.examine(repository)
    answer["repo"] = _facts(repository)
    below = os.fsencode(os.path.relpath(path, repository.root))
    prefix = b"" if below == b"." else below + b"/"
    try:
        tracked = albedo_vcs.tracked(repository, prefix.rstrip(b"/"))
    except CommandFailed as failure:
        answer["reason"] = str(failure)
        return answer
    answer["languages"] = _languages(repository.root, tracked)
    answer["tree"] = _tree_of_paths(path, prefix, tracked, repository.changed or [])
    return answer


def _require_folder(path: str) -> None:
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):
            return
    except OSError:
        pass
    raise Refused("not_found", f"{shown(path)} is not a directory")


def _languages(root: str, tracked: list[bytes]) -> list[dict]:
    """The languages with most bytes among the tracked files, most first."""
    import albedo_languages

    tables = albedo_languages.load()
    top = os.fsencode(root)
    sizes: dict[str, int] = {}
    for path in tracked:
        name = path.rpartition(b"/")[2].decode(errors="replace")
        language = albedo_languages.language_of(name, tables)
        if language is None:
            continue
        try:
            found = os.lstat(top + b"/" + path)
        except OSError:  # tracked, and deleted here
            continue
        if stat.S_ISREG(found.st_mode):
            sizes[language] = sizes.get(language, 0) + found.st_size
    ranked = sorted(((-size, name) for name, size in sizes.items() if size))[:LANGUAGES]
    return [{"name": name, "bytes": -size} for size, name in ranked]


def _tree_of_folder(path: str) -> dict:
    """Two levels of a folder outside any repository."""
    level = {name: set() for name in _names(path)}
    for name in _first(level, path, TREE_ENTRIES):
        inner = os.path.join(path, name)
        if os.path.isdir(inner) and not os.path.islink(inner):
            level[name] = _names(inner)
    return _tree(level, path, lambda _: 0)


def _names(path: str) -> set[str]:
    """The names in a folder, of a huge one only some; none for one that cannot be read."""
    try:
        with os.scandir(path) as found:
            return {entry.name for entry in itertools.islice(found, MAX_LOOKED_AT)}
    except OSError:
        return set()


def _tree_of_paths(path: str, prefix: bytes, tracked: list[bytes], changed: list[bytes]) -> dict:
    """Two levels of the tracked and changed paths below `prefix`."""
    level: dict[str, set[str]] = {}
    for each in [*tracked, *changed]:
        if each.startswith(prefix) and len(each) > len(prefix):
            parts = os.fsdecode(each[len(prefix):].rstrip(b"/")).split("/", 2)
            children = level.setdefault(parts[0], set())
            if len(parts) > 1:
                children.add(parts[1])
    counts: dict[str, int] = {}
    for each in changed:
        if each.startswith(prefix):
            parts = os.fsdecode(each[len(prefix):].rstrip(b"/")).split("/", 2)
            for relative in {parts[0], "/".join(parts[:2])}:
                counts[relative] = counts.get(relative, 0) + 1
    return _tree(level, path, lambda relative: counts.get(relative, 0))


def _first(names, path: str, most: int) -> list[str]:
    """The first `most` names as shown: folders before files, then by name without case."""

    def order(name: str) -> tuple[bool, str, str]:
        return not os.path.isdir(os.path.join(path, name)), name.casefold(), name

    return heapq.nsmallest(most, names, key=order)


def _tree(level: dict[str, set[str]], path: str, changed_in) -> dict:
    entries = []
    for name in _first(level, path, TREE_ENTRIES):
        inner = os.path.join(path, name)
        children = [
            _entry(inner, child, changed_in(f"{name}/{child}"))
            for child in _first(level[name], inner, TREE_CHILDREN)
        ]
        entry = _entry(path, name, changed_in(name))
        if entry["kind"] == "folder":
            entry["children"] = children
            entry["more"] = len(level[name]) - len(children)
        entries.append(entry)
    return {"entries": entries, "more": len(level) - len(entries)}


def _entry(folder: str, name: str, changed: int) -> dict:
    return {**named(name), "kind": _kind(os.path.join(folder, name)), "changed": changed}


def _kind(path: str) -> str:
    """`folder` (links to folders too), `file`, `link` (to anything else), `fifo`, `socket`,
    `device`, or `absent` (tracked, and deleted here)."""
    try:
        found = os.lstat(path).st_mode
        if stat.S_ISLNK(found):
            return "folder" if os.path.isdir(path) else "link"
    except OSError:
        return "absent"
    for test, kind in (
        (stat.S_ISDIR, "folder"), (stat.S_ISREG, "file"), (stat.S_ISFIFO, "fifo"),
        (stat.S_ISSOCK, "socket"),
    ):
        if test(found):
            return kind
    return "device"


# --- names -------------------------------------------------------------------------------------


def shown(text: str) -> str:
    """`text` with U+FFFD for what is not UTF-8."""
    return os.fsencode(text).decode(errors="replace")


def named(name: str) -> dict:
    """`{"name"}`, and `raw` where the name shown is not the name's own bytes."""
    if name.isascii() or (visible := shown(name)) == name:
        return {"name": name}
    from urllib.parse import quote_from_bytes
    return {"name": visible, "raw": quote_from_bytes(os.fsencode(name))}
