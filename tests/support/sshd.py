"""A private real sshd on loopback, and an `ssh` on a PATH of its own that reads only its config.

`Sshd(folder)` is a context manager; nothing outside `folder` is read or changed. Hosts of the config:
`box`, and one per login shell: `bash zsh fish tcsh dash` (commands of the account run through it). The
account's HOME there is `home`. `bin` goes in front of a daemon's PATH. Every ssh call is a line of
`log`. Standard library only; needs /usr/sbin/sshd and ssh-keygen.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

SHELLS = ("bash", "zsh", "fish", "tcsh", "dash")
START_SECONDS = 10


def available() -> bool:
    return os.geteuid() == 0 and all(map(shutil.which, ("/usr/sbin/sshd", "ssh-keygen", "ssh")))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Sshd:
    def __init__(self, folder: Path, client_config: str = "", server_config: str = "") -> None:
        self.folder = folder
        self.home = folder / "remote-home"
        self.bin = folder / "ssh-bin"
        self.log = folder / "ssh.log"
        self.runtime = folder / "runtime"  # for XDG_RUNTIME_DIR: control sockets
        self.ports = {name: free_port() for name in ("box", *SHELLS)}
        self._client_config = client_config
        self._server_config = server_config
        self._server: subprocess.Popen | None = None

    def __enter__(self) -> Sshd:
        for folder in (self.folder, self.home, self.bin, self.runtime):
            folder.mkdir(mode=0o700, exist_ok=True)
        Path("/run/sshd").mkdir(exist_ok=True)
        for name in ("hostkey", "id"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)
        shutil.copy(self.folder / "id.pub", self.folder / "authorized_keys")
        (self.folder / "known_hosts").write_text("private " + (self.folder / "hostkey.pub").read_text())
        (self.folder / "sshd_config").write_text(self._server_text())
        (self.folder / "ssh_config").write_text(self._client_text())
        wrapper = self.bin / "ssh"
        wrapper.write_text(
            f"#!/bin/sh\nprintf '%s\\n' \"$*\" >> {self.log}\n"
            f"exec {shutil.which('ssh')} -F {self.folder}/ssh_config \"$@\"\n"
        )
        wrapper.chmod(0o700)
        self.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self.stop()
        for pid in self.masters():
            os.kill(pid, signal.SIGKILL)

    def start(self) -> None:
        """Listen. Connections that a stop() cut are not made again."""
        self._server = subprocess.Popen(
            ["/usr/sbin/sshd", "-D", "-f", self.folder / "sshd_config", "-E", self.folder / "sshd.log"],
            stdin=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.ports["box"]), timeout=1).close()
                return
            except OSError:
                if self._server.poll() is not None or time.monotonic() > deadline:
                    raise AssertionError((self.folder / "sshd.log").read_text()) from None
                time.sleep(0.02)

    def stop(self) -> None:
        """Refuse new connections and cut those that are there."""
        if self._server is None:
            return
        sessions = children(self._server.pid)
        self._server.kill()
        self._server.wait()
        self._server = None
        for pid in sessions:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def calls(self, word: str = "") -> int:
        """How many ssh calls had `word` in their command line."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return sum(word in line for line in lines)

    def sign_ins(self) -> int:
        return (self.folder / "sshd.log").read_text().count("Accepted publickey")

    def masters(self) -> list[int]:
        """Control masters whose socket is in this folder."""
        needle = os.fsencode(self.folder)
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if needle in command and b"[mux]" in command:
                found.append(int(process.name))
        return found

    def _server_text(self) -> str:
        ports = "".join(f"Port {port}\n" for port in self.ports.values())
        matches = "".join(
            f"Match LocalPort {self.ports[shell]}\n"
            f'    ForceCommand env SHELL=/bin/{shell} /bin/{shell} -c "$SSH_ORIGINAL_COMMAND"\n'
            for shell in SHELLS
        )
        return (
            f"{ports}ListenAddress 127.0.0.1\nHostKey {self.folder}/hostkey\nPidFile none\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nPermitRootLogin prohibit-password\n"
            "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\n"
            f"UseDNS no\nPrintMotd no\nSetEnv HOME={self.home}\n{self._server_config}\n{matches}"
        )

    def _client_text(self) -> str:
        hosts = "".join(f"Host {name}\n    Port {port}\n" for name, port in self.ports.items())
        return (
            f"{self._client_config}\n{hosts}Host *\n    HostName 127.0.0.1\n    User root\n"
            f"    HostKeyAlias private\n    IdentityFile {self.folder}/id\n    IdentitiesOnly yes\n"
            f"    UserKnownHostsFile {self.folder}/known_hosts\n    GlobalKnownHostsFile none\n"
            "    StrictHostKeyChecking yes\n"
        )


def children(pid: int) -> list[int]:
    """All descendants that are still below `pid`: a server's connections, not what left them."""
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for word in (task / "children").read_text().split():
                child = int(word)
                if Path(f"/proc/{child}/cmdline").read_bytes().startswith(b"sshd: "):
                    found += [child, *children(child)]
    except OSError:
        pass
    return found
