"""What git or jj say of a folder, without changing it and without running anything it holds.

A repository is untrusted: its configuration can name programs (fsmonitor, hooks, filters, external
diffs, credential helpers, ssh commands). Every such name that the commands used here could reach is
switched off on the command line; filters are switched off one by one, by the names the
configuration gives. Submodules are not entered, nothing is fetched, no lock is taken, the index is
not refreshed on disk, jj takes no snapshot and writes no operation.

Paths are bytes relative to the repository's root, with `/`. Each command has `SECONDS`; a field
that could not be told is None, and `reason` holds the tool's last words.
"""

from __future__ import annotations

import os
import time

from albedo_command import CommandFailed, answer_of

SECONDS = 2.0


class Repository:
    """A repository and what was found: `facts` is the JSON shown, paths are for the preview."""

    def __init__(self, kind: str, root: str) -> None:
        self.kind = kind
        self.root = root
        self.facts: dict = {}
        self.changed: list[bytes] | None = None  # a trailing `/` stands for all below it


def find(folder: str) -> Repository | None:
    """The nearest repository at or above `folder`; `.jj` beats `.git` at one level."""
    at = folder
    while True:
        if os.path.isdir(os.path.join(at, ".jj")):
            return Repository("jj", at)
        if os.path.lexists(os.path.join(at, ".git")):
            return Repository("git", at)
        above = os.path.dirname(at)
        if above == at:
            return None
        at = above


def kind_of(folder: str) -> str | None:
    """`"jj"`, `"git"` or None, for the folder alone."""
    if os.access(folder + "/.jj", os.F_OK):
        return "jj"
    return "git" if os.access(folder + "/.git", os.F_OK) else None


MARKS_KEPT = 16_384
MARK_SECONDS = 30.0  # then looked at anew, whatever the folder's times say
SETTLED_SECONDS = 3.0  # a folder changed more lately may change again within the same tick of its clock

_marks: dict = {}  # (device, inode): (mtime, ctime, when looked, kind)


def kind_in(folder: int, name: str, state: "os.stat_result | None") -> str | None:
    """kind_of() for `name` in the open folder. A list asks for each of up to 2,000 folders, again and
    again: one whose times did not change has the same names in it, and is not looked into."""
    now = time.time()
    if state is not None:
        key = state.st_dev, state.st_ino
        known = _marks.get(key)
        if known is not None and known[0] == state.st_mtime and known[1] == state.st_ctime and \
                now - known[2] < MARK_SECONDS:
            return known[3]
    kind = None
    if os.access(name + "/.jj", os.F_OK, dir_fd=folder):
        kind = "jj"
    elif os.access(name + "/.git", os.F_OK, dir_fd=folder):
        kind = "git"
    if state is not None and now - max(state.st_mtime, state.st_ctime) > SETTLED_SECONDS:
        if len(_marks) >= MARKS_KEPT:
            _marks.clear()
        _marks[key] = state.st_mtime, state.st_ctime, now, kind
    return kind


def examine(repository: Repository) -> None:
    """Fills `facts` and `changed`."""
    (_examine_git if repository.kind == "git" else _examine_jj)(repository)


def tracked(repository: Repository, below: bytes) -> list[bytes]:
    """Tracked paths below `below` (b"" for all). Raises CommandFailed."""
    if repository.kind == "git":
        argv = ["ls-files", "-z", "--", os.fsdecode(below) or "."]
        listed = _git(repository.root, argv, literal=True)
        return [path for path in listed.split(b"\0") if path]
    pattern = f'root:"{_quoted(os.fsdecode(below))}"' if below else "all()"
    listed = _jj(repository.root, ["file", "list", "-r", "@", "-T", r'path ++ "\0"', pattern])
    return [path for path in listed.split(b"\0") if path]


# --- git ---------------------------------------------------------------------------------------

_GIT_OFF = [
    "core.fsmonitor=false", "core.hooksPath=/dev/null", "core.sshCommand=false",
    "core.untrackedCache=keep", "core.pager=cat", "diff.external=", "credential.helper=",
    "submodule.recurse=false", "log.showSignature=false", "protocol.allow=never",
    "index.threads=1", "maintenance.auto=false", "gc.auto=0",
]


def _git_environment(literal: bool) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {
        **kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1", "GIT_ATTR_NOSYSTEM": "1",
        **({"GIT_LITERAL_PATHSPECS": "1"} if literal else {}),
    }


def _git(root: str, words: list[str], off: list[str] = (), literal: bool = False) -> bytes:
    settings = [word for setting in [*_GIT_OFF, *off] for word in ("-c", setting)]
    argv = ["git", "--no-pager", "-C", root, *settings, *words]
    return answer_of(argv, _git_environment(literal), SECONDS)


def _filters_off(root: str) -> list[str]:
    """Settings that make every filter driver named in any configuration do nothing."""
    try:
        named = _git(root, ["config", "--includes", "--list", "--name-only", "-z"])
    except CommandFailed:
        return []
    off = []
    for name in {os.fsdecode(each) for each in named.split(b"\0") if each}:
        section, _, key = name.rpartition(".")
        if section.startswith("filter.") and key in ("clean", "smudge", "process"):
            off.append(f"{name}=")
            off.append(f"{section}.required=false")
    return off


def _examine_git(repository: Repository) -> None:
    facts = {
        "kind": "git", "root": repository.root,
        "branch": None, "commit": None, "changed": None, "touched": None,
    }
    repository.facts = facts
    try:
        status = _git(
            repository.root,
            ["status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal",
             "--ignore-submodules=all", "--no-renames"],
            _filters_off(repository.root),
        )
    except CommandFailed as failure:
        facts["reason"] = str(failure)
        _branch_without_status(repository)
        return
    repository.changed = []
    for line in status.split(b"\0"):
        if line.startswith(b"# branch.oid "):
            commit = line[13:].decode()
            facts["commit"] = None if commit == "(initial)" else commit
        elif line.startswith(b"# branch.head "):
            branch = line[14:].decode(errors="replace")
            facts["branch"] = None if branch == "(detached)" else branch
        elif line[:2] == b"1 ":
            repository.changed.append(line.split(b" ", 8)[8])
        elif line[:2] == b"u ":
            repository.changed.append(line.split(b" ", 10)[10])
        elif line[:2] == b"? ":
            repository.changed.append(line[2:])
    facts["changed"] = len(repository.changed)
    _touched_git(repository)


def _branch_without_status(repository: Repository) -> None:
    """Branch and commit alone cost no look at the files."""
    try:
        head = _git(repository.root, ["symbolic-ref", "-q", "--short", "HEAD"])
        repository.facts["branch"] = head.decode(errors="replace").strip()
    except CommandFailed:
        pass
    try:
        commit = _git(repository.root, ["rev-parse", "-q", "--verify", "HEAD"])
        repository.facts["commit"] = commit.decode().strip()
    except CommandFailed:
        return
    _touched_git(repository)


def _touched_git(repository: Repository) -> None:
    """When the checked-out commit was made, in UTC milliseconds."""
    if repository.facts["commit"] is None:
        return
    try:
        raw = _git(repository.root, ["cat-file", "commit", repository.facts["commit"]])
        head = raw.partition(b"\n\n")[0]
        (line,) = [line for line in head.splitlines() if line.startswith(b"committer ")]
        repository.facts["touched"] = int(line.split()[-2]) * 1000
    except (CommandFailed, ValueError) as failure:
        repository.facts.setdefault("reason", str(failure))


# --- jj ----------------------------------------------------------------------------------------

_BOOKMARK = r'local_bookmarks.map(|each| each.name()).join("\x1f") ++ "\0"'
_CHANGE = r'change_id ++ "\0" ++ committer.timestamp().format("%s") ++ "\0"'


def _jj(root: str, words: list[str]) -> bytes:
    argv = [
        "jj", "-R", root, "--ignore-working-copy", "--at-op=@", "--no-pager", "--color=never",
        "--quiet", *words,
    ]
    return answer_of(argv, {**os.environ, "LC_ALL": "C"}, SECONDS, cwd=root)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _examine_jj(repository: Repository) -> None:
    facts = {
        "kind": "jj", "root": repository.root,
        "change": None, "bookmark": None, "changed": None, "touched": None,
    }
    repository.facts = facts
    try:
        logged = _jj(repository.root, ["log", "--no-graph", "-r", "@", "-T", _CHANGE])
        change, touched, _ = logged.split(b"\0")
        facts["change"], facts["touched"] = change.decode(), int(touched) * 1000
    except (CommandFailed, ValueError) as failure:
        facts["reason"] = str(failure)
    try:
        facts["bookmark"] = _bookmark(repository.root)
    except CommandFailed as failure:
        facts.setdefault("reason", str(failure))
    try:
        template = r'path ++ "\0"'
        listed = _jj(repository.root, ["diff", "-r", "@", "-T", template])
        repository.changed = [path for path in listed.split(b"\0") if path]
        facts["changed"] = len(repository.changed)
    except CommandFailed as failure:
        facts.setdefault("reason", str(failure))


def _bookmark(root: str) -> dict | None:
    """The nearest bookmark at or above the working copy, and how many changes are beyond it."""
    nearest = "heads(::@ & bookmarks())"
    named = _jj(root, ["log", "--no-graph", "-n", "1", "-r", nearest, "-T", _BOOKMARK])
    names = [name for name in named.rstrip(b"\0").split(b"\x1f") if name]
    if not names:
        return None
    beyond = _jj(root, ["log", "--no-graph", "-r", f"({nearest})..@", "-T", r'"."'])
    return {"name": sorted(names)[0].decode(errors="replace"), "ahead": len(beyond)}
