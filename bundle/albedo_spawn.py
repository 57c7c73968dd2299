"""Starts a child whose record is written before it runs.

fork(2) by hand, since it needs what the standard ways do not give together in no time: a process
group of its own, and a pause between its start and its program. Only a process with one thread may
call it.
"""
from __future__ import annotations

import _signal
import os

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable

RESET_SIGNALS = (_signal.SIGPIPE, _signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT,
                 _signal.SIGCHLD)


class Spawn:
    __slots__ = ("argv", "env", "cwd", "descriptors", "new_session", "open_files")

    def __init__(self, argv: list, env: dict, cwd: str, descriptors: dict,
                 new_session: bool = False, open_files: int = 0) -> None:
        self.argv = argv
        self.env = env
        self.cwd = cwd
        self.descriptors = descriptors  # number in the child: number here
        self.new_session = new_session
        self.open_files = open_files  # soft limit, 0: as it is


def set_open_files(limit: int) -> None:
    """The soft limit of open files, as far as the hard one goes."""
    import resource
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    if limit != soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def close_others(kept: list) -> None:
    """Closes every descriptor of this process but these."""
    first = 0
    for number in sorted(kept):
        if first < number:  # closerange(0, 0) closes all there are
            os.closerange(first, number)
        first = number + 1
    os.closerange(first, 1 << 20)


def _place_descriptors(wanted: dict, keep: int) -> int:
    """Gives each descriptor its number, closes all others but `keep`; where `keep` is now."""
    top = max([keep, *wanted, *wanted.values()]) + 1
    import fcntl
    moved = {number: fcntl.fcntl(source, fcntl.F_DUPFD, top) for number, source in wanted.items()}
    keep = fcntl.fcntl(keep, fcntl.F_DUPFD_CLOEXEC, top)
    for number, source in moved.items():
        os.dup2(source, number, inheritable=True)
    close_others([*wanted, keep])
    return keep


def spawn(what: Spawn, before_exec: Callable[[int], None]) -> int:
    """The child's pid, with its program running. `before_exec(pid)` is called while it waits.

    Raises OSError when the folder or the program is not there; no child is left then."""
    go_read, go_write = os.pipe()
    error_read, error_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(go_write)
            os.close(error_read)
            os.setsid() if what.new_session else os.setpgid(0, 0)
            for number in RESET_SIGNALS:
                _signal.signal(number, _signal.SIG_DFL)
            _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
            if os.read(go_read, 1) != b"g":
                os._exit(127)
            os.close(go_read)
            if what.cwd:
                os.chdir(what.cwd)
            if what.open_files:
                set_open_files(what.open_files)
            error_write = _place_descriptors(what.descriptors, error_write)
            os.execvpe(what.argv[0], what.argv, what.env)
        except BaseException as error:
            number = getattr(error, "errno", None) or 0
            try:
                os.write(error_write, f"{number} {getattr(error, 'filename', None) or what.argv[0]}".encode(
                    "utf-8", "replace"))
            finally:
                os._exit(127)
    os.close(go_read)
    os.close(error_write)
    try:
        if not what.new_session:
            try:
                os.setpgid(pid, pid)  # both sides do, so that neither has to wait for the other
            except OSError:
                pass
        before_exec(pid)
        os.write(go_write, b"g")
        os.close(go_write)
        go_write = -1
        failure = os.read(error_read, 4096)
    finally:
        if go_write >= 0:
            os.close(go_write)
        os.close(error_read)
    if failure:
        os.waitpid(pid, 0)
        number, _, name = failure.decode("utf-8", "replace").partition(" ")
        raise OSError(int(number) or 8, os.strerror(int(number) or 8), name)
    return pid
