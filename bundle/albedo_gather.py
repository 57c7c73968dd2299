"""A project's instruction and skill files, read in one go: the `gather` question.

`{"op": "gather", "path": folder}` is answered by `{"ok": true, "files": [{"path", "text"}],
"skipped": [{"path", "reason"}]}`. Only regular files below the folder are read; a link is followed
as long as it stays below it. Text is UTF-8, with U+FFFD for what is not.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from albedo_browse import Refused, absolute, asked_path, shown

TOP_NAMES = ("AGENTS.md", "SYSTEM.md")
MARKDOWN_FOLDERS = (".agents", ".albedo")
SKILL_FOLDERS = (".agents/skills", ".albedo/skills")
MAX_FILES = 512
MAX_FILE_BYTES = 1 << 20
MAX_BYTES = 7 << 20  # with JSON's escapes one answer stays within a frame of 8 MiB
MAX_LOOKED_AT = 20_000  # names, so that a huge tree costs a bounded time
MAX_DEPTH = 8


def handle(request: dict) -> dict:
    """The files of `request["path"]`; `ok` is false with `code` when it is no folder."""
    try:
        folder = absolute(asked_path(request))
        if not os.path.isdir(folder):
            raise Refused("not_found", f"{shown(folder)} is not a directory")
    except Refused as refusal:
        return {"ok": False, "code": refusal.code, "error": str(refusal)}
    files: list[dict] = []
    skipped: list[dict] = []
    size = 0
    for relative in _candidates(folder):
        text, reason = _read(folder, relative)
        cost = 0 if text is None else _json_bytes(text)
        if reason is None and (len(files) == MAX_FILES or size + cost > MAX_BYTES):
            reason = f"beyond {MAX_FILES} files or {MAX_BYTES >> 20} MiB"
        if reason is not None:
            if len(skipped) < MAX_FILES:
                skipped.append({"path": shown(relative), "reason": reason})
            continue
        size += cost
        files.append({"path": shown(relative), "text": text})
    return {"ok": True, "files": files, "skipped": skipped}


def _json_bytes(text: str) -> int:
    """At most what `text` takes as JSON: control characters become six bytes."""
    return len(text.encode()) + 5 * sum(1 for each in text if each < " " or each in '"\\')


def _candidates(folder: str) -> Iterator[str]:
    yield from (name for name in TOP_NAMES if os.path.lexists(os.path.join(folder, name)))
    for place in MARKDOWN_FOLDERS:
        for name in _sorted_names(os.path.join(folder, place)):
            if name.endswith(".md"):
                yield f"{place}/{name}"
    budget = [MAX_LOOKED_AT]
    for place in SKILL_FOLDERS:
        yield from _below(folder, place, MAX_DEPTH, budget)


def _below(folder: str, relative: str, depth: int, budget: list[int]) -> Iterator[str]:
    for name in _sorted_names(os.path.join(folder, relative)):
        budget[0] -= 1
        if budget[0] < 0:
            return
        inner = f"{relative}/{name}"
        path = os.path.join(folder, inner)
        if not os.path.isdir(path):
            yield inner
        elif depth > 1 and _inside(folder, path) and name != ".git":
            yield from _below(folder, inner, depth - 1, budget)


def _sorted_names(path: str) -> list[str]:
    try:
        with os.scandir(path) as found:
            return sorted(entry.name for entry, _ in zip(found, range(MAX_LOOKED_AT)))
    except OSError:
        return []


def _inside(folder: str, path: str) -> bool:
    top = os.path.realpath(folder)
    return os.path.commonpath([top, os.path.realpath(path)]) == top


def _read(folder: str, relative: str) -> tuple[str | None, str | None]:
    """(text, None) or (None, why not)."""
    path = os.path.join(folder, relative)
    if not _inside(folder, path):
        return None, "leads out of the folder"
    try:
        descriptor = os.open(
            os.path.realpath(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        )
    except OSError as fault:
        return None, fault.strerror
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None, "not a regular file"
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        return None, f"over {MAX_FILE_BYTES >> 20} MiB"
    return content.decode(errors="replace"), None
