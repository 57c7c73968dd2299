"""A kernel's run directory: what it records, and whether its kernel is gone or only out of reach.

Used by bridge, keeper and ladder, keeper alive or not (docs/PROTOCOL.md, "Run directory").
"""
from __future__ import annotations

import os
import sys

import albedo_json

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Any

KERNEL_FILE = "kernel.json"
PROCESSES_FILE = "processes"
SOCKET_FILE = "kernel.sock"
SOCKET_PATH_FILE = "kernel.sock.path"
LOG_FILE = "kernel.log"
OUTPUT_FOLDER = "output"
RELEASED_FILE = "released"  # there while the kernel has been released: its session goes on

ALIVE, GONE, ELSEWHERE, UNSURE = "alive", "gone", "elsewhere", "unsure"
STARTED_ANEW = "the host was started anew"
MAX_FILE_BYTES = 1024 * 1024


def read_file(path: str) -> bytes:
    """A small file whole. Raises OSError; too long or no plain file is one too."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        parts, total = [], 0
        while total <= MAX_FILE_BYTES:
            part = os.read(descriptor, 65536)
            if not part:
                return b"".join(parts)
            parts.append(part)
            total += len(part)
        raise OSError(27, "file too large", path)
    finally:
        os.close(descriptor)


def write_file(path: str, data: bytes) -> None:
    """Whole or not at all, 0600, by rename."""
    part = path + ".part"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view):]
    finally:
        os.close(descriptor)
    os.rename(part, path)


def _first_text(*paths: str) -> str:
    for path in paths:
        try:
            text = read_file(path).decode("ascii", "replace").strip()
        except OSError:
            continue
        if text:
            return text
    return ""


def _command_output(*argv: str) -> str:
    """What a small system program prints; for systems without /proc only."""
    import subprocess
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace").strip()


class Machine:
    """Which machine this is and since when it is up. Empty where the system does not say."""

    __slots__ = ("hostname", "machine_id", "boot_id")

    def __init__(self, hostname: str, machine_id: str, boot_id: str) -> None:
        self.hostname = hostname
        self.machine_id = machine_id
        self.boot_id = boot_id


def this_machine() -> Machine:
    if sys.platform.startswith("linux"):
        machine_id = _first_text("/etc/machine-id", "/var/lib/dbus/machine-id")
        boot_id = _first_text("/proc/sys/kernel/random/boot_id")
    else:
        machine_id = _command_output("sysctl", "-n", "kern.uuid")
        boot_id = _command_output("sysctl", "-n", "kern.bootsessionuuid")
    return Machine(os.uname().nodename, machine_id, boot_id)


class Process:
    """What /proc says of a process."""

    __slots__ = ("state", "parent", "group", "session", "start")

    def __init__(self, state: str, parent: int, group: int, session: int, start: str) -> None:
        self.state = state
        self.parent = parent
        self.group = group
        self.session = session
        self.start = start


def process(pid: int) -> "Process | None":
    """None: there is no such process, or it is dead and only not waited for."""
    try:
        stat = read_file(f"/proc/{pid}/stat")
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return None
        return _process_by_ps(pid)
    except OSError:
        return None  # ESRCH: ended while it was read
    fields = stat[stat.rindex(b")") + 2:].split()
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), fields[19].decode())


def _process_by_ps(pid: int) -> "Process | None":
    words = _command_output("ps", "-o", "stat=,ppid=,pgid=,sess=,lstart=", "-p", str(pid)).split(None, 4)
    if len(words) < 5 or words[0].startswith("Z"):
        return None
    return Process(words[0], int(words[1]), int(words[2]), os.getsid(pid), words[4])


def start_time(pid: int) -> str:
    """What tells this process from a later one with its number. "" when it has ended."""
    found = process(pid)
    return found.start if found else ""


def write_kernel(run: str, facts: dict) -> None:
    write_file(os.path.join(run, KERNEL_FILE), albedo_json.dumps(facts))


def read_kernel(run: str) -> "dict | None":
    """What the keeper recorded of itself; None when there is nothing that can be read."""
    try:
        facts = albedo_json.loads(read_file(os.path.join(run, KERNEL_FILE)))
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) else None


def write_processes(run: str, entries: list) -> None:
    lines = b"".join(albedo_json.dumps(entry) + b"\n" for entry in entries)
    write_file(os.path.join(run, PROCESSES_FILE), lines)


def read_processes(run: str) -> list:
    """Entries {"role", "pid", "pgid", "start"}; lines that are none are left out."""
    try:
        lines = read_file(os.path.join(run, PROCESSES_FILE)).splitlines()
    except OSError:
        return []
    entries = []
    for line in lines:
        try:
            entry = albedo_json.loads(line)
            if int(entry["pid"]) > 1 and int(entry["pgid"]) > 1:
                entries.append({"role": str(entry["role"]), "pid": int(entry["pid"]),
                                "pgid": int(entry["pgid"]), "start": str(entry["start"])})
        except (ValueError, TypeError, KeyError):
            continue
    return entries


def verdict(run: str, machine: "Machine | None" = None):
    """(ALIVE | GONE | ELSEWHERE | UNSURE, words). Only GONE is proof; it may need the ladder first."""
    if not os.path.isdir(run):
        return GONE, "there is no run directory"
    facts = read_kernel(run)
    machine = machine or this_machine()
    if facts is None:
        return UNSURE, "the kernel has not recorded itself yet"
    recorded = str(facts.get("machine_id") or "")
    if recorded and machine.machine_id:
        here = recorded == machine.machine_id
    else:
        here = facts.get("hostname") == machine.hostname
    if not here:
        return ELSEWHERE, str(facts.get("hostname") or "another machine")
    if facts.get("boot_id") and machine.boot_id and facts["boot_id"] != machine.boot_id:
        return GONE, STARTED_ANEW
    try:
        pid = int(facts["pid"])
    except (KeyError, TypeError, ValueError):
        return UNSURE, "the kernel's record cannot be read"
    found = process(pid)
    if found is None or found.start != str(facts.get("start")):
        return GONE, "the kernel's process has ended"
    return ALIVE, ""


def remove_tree(path: str) -> None:
    """Removes a folder and all in it, following no link. What cannot be removed stays."""
    try:
        entries = list(os.scandir(path))
    except OSError:
        entries = []
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                remove_tree(entry.path)
            else:
                os.unlink(entry.path)
        except OSError:
            pass
    try:
        os.rmdir(path)
    except OSError:
        pass


SOCKET_FOLDER_PREFIX = "/tmp/albedo-"


def remove_run(run: str) -> None:
    """A run directory, and the folder under /tmp that it names where it could hold no socket."""
    try:
        path = read_file(os.path.join(run, SOCKET_PATH_FILE)).decode()
        folder = os.path.dirname(path)
        nonce = folder.removeprefix(f"{SOCKET_FOLDER_PREFIX}{os.getuid()}-")
        if len(nonce) == 16 and not set(nonce) - set("0123456789abcdef"):
            os.unlink(path)
            os.rmdir(folder)
    except (OSError, UnicodeDecodeError):
        pass
    remove_tree(run)
