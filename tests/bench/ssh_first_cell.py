#!/usr/bin/python3
"""The first cell on a host: staged with its connection up, and a first visit with neither.

The daemon has been started when the clock starts; the session is made within the measured time.
A staged host is one that this daemon knows from before it was started again: no agent and no bridge
is there. The connection that is up is the user's own, from their ssh config.
"""

from __future__ import annotations

import shutil
import time

from measure import QUICK, RawHttp, interleave, ratio, row, scaled
from ssh_rig import daemon_for, pass_command, private_sshd, run_ssh, ssh_words
from sshd import available

GROUP = "first cell, ssh"
USERS_MASTER = ("Host box\n    ControlMaster auto\n    ControlPath {folder}/user-%C\n    ControlPersist 600\n")


def first_cell(daemon, folder) -> float:
    raw = RawHttp(daemon)
    began = time.perf_counter()
    session = daemon.session(f"box:{folder}")
    result = raw.cell(session, "1+1")
    took = time.perf_counter() - began
    assert result["value"] == "2", result
    raw.close()
    return took


def staged(rounds: int) -> None:
    with private_sshd(USERS_MASTER) as server:
        words = ssh_words(server)
        run_ssh(words, "true")
        with daemon_for(server) as daemon:
            first_cell(daemon, server.home)  # stages

            def another() -> float:
                return first_cell(daemon, server.home)

            def started_again() -> float:
                for session in daemon.get("/sessions"):
                    daemon.request("DELETE", f"/sessions/{session['id']}")
                daemon.stop()
                daemon.boot()
                return first_cell(daemon, server.home)

            samples = interleave(rounds, {
                "first cell of a daemon started again": started_again,
                "first cell of another session": another,
                "ssh python3 -c pass over the master": lambda: run_ssh(words, pass_command()),
            }, warmup=1)
        run_ssh(words[:-1] + ("-O", "exit", "box"), "")
        floor = samples["ssh python3 -c pass over the master"]
        for name, values in samples.items():
            note = "" if values is floor else ratio(values, floor, "ssh python3 -c pass", 3)
            row(GROUP, f"staged, master up: {name}", scaled(values, 1e3), "ms", note)


def unstaged(rounds: int) -> None:
    with private_sshd() as server:
        words = ssh_words(server, "-o", "ControlPath=none")

        def visit() -> float:
            shutil.rmtree(server.home / ".albedo-remote", ignore_errors=True)
            with daemon_for(server) as daemon:  # its stop ends the master
                return first_cell(daemon, server.home)

        samples = interleave(rounds, {
            "first visit, with staging": visit,
            "ssh true, no master": lambda: run_ssh(words, "true"),
        }, warmup=1)
        for name, values in samples.items():
            note = ratio(values, samples["ssh true, no master"], "cold ssh true", 1.8) if "visit" in name else ""
            row(GROUP, name, scaled(values, 1e3), "ms", note)


def main() -> None:
    if not available():
        row(GROUP, "skipped: needs root, sshd, ssh-keygen", [0.0], "ms")
        return
    rounds = 3 if QUICK else 12
    staged(rounds)
    unstaged(rounds)


if __name__ == "__main__":
    main()
