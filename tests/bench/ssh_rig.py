"""Shared by the ssh benchmarks: a private sshd, daemons that reach it, ssh over the daemon's master."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import PYTHON, Daemon
from harness import sweep
from sshd import Sshd


@contextmanager
def private_sshd(client_config: str = "") -> Iterator[Sshd]:
    """Leaves no kernel on that host."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name) / "sshd"
        with Sshd(folder, client_config.format(folder=folder)) as server:
            try:
                yield server
            finally:
                sweep(server.home)


@contextmanager
def daemon_for(server: Sshd) -> Iterator[Daemon]:
    daemon = Daemon(start=False)
    with daemon:
        daemon.environment["PATH"] = f"{server.bin}:{daemon.environment['PATH']}"
        daemon.environment["XDG_RUNTIME_DIR"] = str(server.runtime)
        daemon.boot()
        yield daemon


def ssh_words(server: Sshd, *options: str) -> tuple[str, ...]:
    """`ssh OPTIONS box`, without the wrapper that counts calls."""
    return (str(shutil.which("ssh")), "-F", f"{server.folder}/ssh_config", "-o", "BatchMode=yes", *options, "box")


def over_daemons_master(server: Sshd) -> tuple[str, ...]:
    """`ssh box` over the connection that the daemon has opened."""
    [socket] = [path for path in (server.runtime / "albedo").iterdir() if path.is_socket()]
    return ssh_words(server, "-o", f"ControlPath={socket}", "-o", "ControlMaster=no", "-o", "ProxyCommand=false")


def run_ssh(words: tuple[str, ...], command: str) -> None:
    subprocess.run([*words, command], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def pass_command() -> str:
    return f"{PYTHON} -c pass"


def peak_mib(pid: int) -> float:
    """The most memory the process ever had."""
    for text in Path(f"/proc/{pid}/status").read_text().splitlines():
        if text.startswith("VmHWM:"):
            return int(text.split()[1]) / 1024
    raise RuntimeError(f"no peak of {pid}")


def file_of(server: Sshd, name: str, line: bytes, count: int) -> Path:
    path = server.home / name
    with open(path, "wb") as file:
        for _ in range(count // 1024):
            file.write(line * 1024)
    os.sync()
    return path
