#!/usr/bin/python3
"""100 MiB that a cell prints in lines of 100 bytes, to a reader of its raw output, beside a bare
`ssh python3` that prints the same and `ssh cat` of the same bytes, both over the same master; and the
memory that the daemon and the kernel took for it."""

from __future__ import annotations

import shlex
import subprocess
import time

from measure import PYTHON, QUICK, RawHttp, at_least, interleave, row
from ssh_rig import daemon_for, file_of, over_daemons_master, peak_mib, private_sshd
from sshd import available

GROUP = "100 MiB of output"
LINE = b"x" * 99 + b"\n"
LINES = 1024 * 1024
BYTES = LINES * len(LINE)
CODE = f"import sys\nline = {LINE.decode()!r}\nfor _ in range({LINES}): sys.stdout.write(line)"


def main() -> None:
    if not available():
        row(GROUP, "skipped: needs root, sshd, ssh-keygen", [0.0], "MB/s")
        return
    with private_sshd() as server, daemon_for(server) as daemon:
        sessions = {"ssh": daemon.session(f"box:{server.home}"), "local": daemon.session()}
        raw = RawHttp(daemon)
        keepers = {}
        for where, session in sessions.items():
            keepers[where] = int(raw.cell(session, "import os; os.getppid()")["value"])
        words = over_daemons_master(server)
        file = file_of(server, "output", LINE, LINES)
        [api] = daemon.processes("albedo-api")

        def cell(where: str) -> float:
            began = time.perf_counter()
            printing = daemon.start_cell(sessions[where], CODE)
            assert raw.count_output(sessions[where], printing) == BYTES
            return time.perf_counter() - began

        def read_all(command: list[str]) -> float:
            began = time.perf_counter()
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0)
            total, piece = 0, memoryview(bytearray(1 << 20))
            while got := child.stdout.readinto(piece):
                total += got
            took = time.perf_counter() - began
            child.stdout.close()
            assert child.wait(10) == 0 and total == BYTES, total
            return took

        samples = interleave(2 if QUICK else 7, {
            "albedo over ssh, raw output": lambda: cell("ssh"),
            "ssh python3 printing the same": lambda: read_all([*words, f"{PYTHON} -c {shlex.quote(CODE)}"]),
            "ssh cat of the same bytes": lambda: read_all([*words, f"cat {file}"]),
            "albedo, local, raw output": lambda: cell("local"),
        }, warmup=1)
        rates = {name: [BYTES / 1e6 / value for value in values] for name, values in samples.items()}
        for name, values in rates.items():
            note = "; ".join(at_least(values, rates[rival], " ".join(rival.split()[:2]), 0.7)
                             for rival in rates if rival.startswith("ssh")) if "albedo" in name else ""
            row(GROUP, name, values, "MB/s", note)
        row(GROUP, "peak memory of the api", [peak_mib(api)], "MiB")
        row(GROUP, "peak memory of the keeper over ssh", [peak_mib(keepers["ssh"])], "MiB")
        raw.close()


if __name__ == "__main__":
    main()
