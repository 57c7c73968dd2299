"""Answers one question about this host, by its `op`. Each kind of question is a module, loaded when
the first one of its kind comes.

`handle({"op", ...})` gives `{"ok": true, ...}` or `{"ok": false, "code", "error"}` and never raises.
"""
from __future__ import annotations

import os
import stat

import albedo_bundle

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Any

MODULES = {"list": "albedo_browse", "repo": "albedo_browse", "preview": "albedo_browse",
           "gather": "albedo_gather"}


def handle(request: dict) -> dict:
    op = request.get("op")
    try:
        if op == "ping":
            return {"ok": True, "pid": os.getpid(), "digest": albedo_bundle.DIGEST}
        if op == "stat":
            return {"ok": True, **look_at(request.get("path"))}
        module = MODULES.get(op) if isinstance(op, str) else None
        if module is None:
            return {"ok": False, "code": "invalid", "error": f"there is no question {op!r}"}
        return __import__(module).handle(request)
    except Exception as error:
        return {"ok": False, "code": "failed", "error": f"{op}: {type(error).__name__}: {error}"}


def look_at(path: Any) -> dict:
    """{"path", "kind"}: folder, file, other or absent. Raises OSError where the system does not say."""
    if not isinstance(path, str) or not path or "\0" in path:
        raise ValueError("path is no path")
    path = os.path.normpath(os.path.expanduser(path))
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return {"path": path, "kind": "absent"}
    kind = "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"
    return {"path": path, "kind": kind}
