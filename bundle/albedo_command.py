"""Run one program for its answer: bounded in time and bytes, its whole group ended at the deadline."""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False  # most questions run no program, and then cost nothing of this
if TYPE_CHECKING:
    import subprocess

MAX_OUTPUT_BYTES = 64 << 20  # a listing of about a million files


class CommandFailed(Exception):
    """The program is missing, said no, took too long or said too much; the text says which."""


def answer_of(argv: list[str], env: dict[str, str], seconds: float, cwd: str = "/") -> bytes:
    """What `argv` wrote to stdout, when it exited 0 within `seconds`.

    Raises CommandFailed with the program's own last words otherwise. No process of it is left: it
    runs in a session of its own, which is killed as a whole.
    """
    import signal
    import subprocess
    try:
        process = subprocess.Popen(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True,
        )
    except OSError as fault:
        raise CommandFailed(f"{argv[0]}: {fault.strerror}") from None
    try:
        out, err = _drain(process, argv[0], time.monotonic() + seconds)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.stdout.close()
        process.stderr.close()
        code = process.wait()
    if code != 0 and code != -signal.SIGKILL:
        words = err.decode(errors="replace").strip().splitlines()
        raise CommandFailed(words[-1] if words else f"{argv[0]} exited {code}")
    return out


def _drain(process: subprocess.Popen, name: str, deadline: float) -> tuple[bytes, bytes]:
    """Both streams to their ends; stdout's end ends the wait."""
    import subprocess
    out: list[bytes] = []
    err = b""
    size = 0
    streams = {process.stdout.fileno(): "out", process.stderr.fileno(): "err"}
    poller = select.poll()
    for descriptor in streams:
        poller.register(descriptor, select.POLLIN)
    while streams:
        left = deadline - time.monotonic()
        ready = poller.poll(left * 1000) if left > 0 else []
        if not ready:
            raise CommandFailed(f"{name} did not answer in time")
        for descriptor, _ in ready:
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                poller.unregister(descriptor)
                del streams[descriptor]
            elif streams[descriptor] == "out":
                out.append(piece)
                size += len(piece)
                if size > MAX_OUTPUT_BYTES:
                    raise CommandFailed(f"{name} said more than {MAX_OUTPUT_BYTES >> 20} MiB")
            else:
                err = (err + piece)[-4096:]
    try:
        process.wait(max(deadline - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"{name} did not end in time") from None
    return b"".join(out), err
