"""The environment that the user's own terminal on this host would have.

Asks the login shell once, with a bound: start-up files may print, fail, wait or never end, and cost
no more than their settings and a note.
"""
import os
import select
import time

import albedo_spawn

SECONDS = 5.0
MAX_BYTES = 4 * 1024 * 1024
C_SHELLS = ("csh", "tcsh")
NOT_SETTINGS = ("_", "SHLVL", "PWD", "OLDPWD")


def _shell() -> str:
    shell = os.environ.get("SHELL", "")
    if not shell:
        try:
            import pwd
            shell = pwd.getpwuid(os.getuid()).pw_shell
        except (KeyError, ImportError):
            pass
    return shell


def parse(data: bytes, marker: bytes) -> "dict | None":
    """The variables after the marker's line, NUL between them; None when it is not there."""
    _noise, found, rest = data.partition(marker + b"\n")
    if not found or not rest.endswith(b"\0"):
        return None
    env = {}
    for entry in rest[:-1].split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name:
            env[os.fsdecode(name)] = os.fsdecode(value)
    return env


def login_environment(base: dict):
    """(environment, note): `base` with what the login files set; a note says what went wrong."""
    shell = _shell()
    if not shell or not os.access(shell, os.X_OK):
        return base, f"there is no login shell ({shell or 'none set'}): its settings are missing"
    marker = "albedo-" + os.urandom(8).hex()
    command = f"exec /bin/sh -c 'echo {marker}; exec env -0'"
    argv = [shell, "-l", "-c", command]
    if os.path.basename(shell) in C_SHELLS:
        argv = [shell, "-c", command]  # they take -l only alone; .cshrc is read all the same
    reader, writer = os.pipe()
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        pid = albedo_spawn.spawn(
            albedo_spawn.Spawn(argv, base, base.get("HOME", ""), {0: null, 1: writer, 2: null},
                               new_session=True), lambda _pid: None)
    except OSError as error:
        os.close(reader)
        return base, f"the login shell {shell} did not start: {error.strerror}"
    finally:
        os.close(writer)
        os.close(null)
    try:
        data, ended = _read_until_end(reader, time.monotonic() + SECONDS)
        if not ended:
            os.killpg(pid, 9)  # agents that a finished profile started may stay
    finally:
        os.close(reader)
        os.waitpid(pid, 0)
    env = parse(data, marker.encode())
    if env is None:
        why = "does not finish" if not ended else "gave no environment"
        return base, f"the login files of {shell}: profile {why}; their settings are missing"
    for name in NOT_SETTINGS:
        env.pop(name, None)
        if name in base:
            env[name] = base[name]
    return env, ""


def _read_until_end(reader: int, deadline: float):
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    parts, total = [], 0
    while total < MAX_BYTES:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            return b"".join(parts), False
        part = os.read(reader, 65536)
        if not part:
            return b"".join(parts), True
        parts.append(part)
        total += len(part)
    return b"".join(parts), False

