#!/usr/bin/python3
"""A host's agent is killed: how long until its program runs again, beside a bare fork/exec loop,
and until the next cell has its answer, beside one start of Python.

Every round has a daemon of its own: the restart policy answers a first death at once and later
ones with growing pauses, which are not what is measured here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from measure import PYTHON, QUICK, Daemon, RawHttp, ratio, row, scaled

GROUP = "agent killed"
PATIENCE = 10.0


def python_start() -> float:
    began = time.perf_counter()
    subprocess.run([PYTHON, "-I", "-c", "pass"], check=True)
    return time.perf_counter() - began


def child_running(parent: int, program: str) -> int:
    """The child of `parent` that runs `program`; 0 when there is none."""
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        try:
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")) == program:
                return int(pid)
        except OSError:  # it ended, or has not become itself yet
            continue
    return 0


def kill_child(parent: int, program: str) -> float:
    """Seconds from SIGKILL of that child until another one runs."""
    victim = child_running(parent, program)
    began = time.perf_counter()
    os.kill(victim, signal.SIGKILL)
    while time.perf_counter() < began + PATIENCE:
        found = child_running(parent, program)
        if found not in (0, victim):
            return time.perf_counter() - began
    raise TimeoutError(f"no new {program}")


def bare_loop() -> float:
    """The same for a shell that does nothing but start a program again."""
    loop = subprocess.Popen(["/bin/bash", "-c", "while :; do /bin/sleep 1000; done"],
                            stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        while not child_running(loop.pid, "sleep"):
            pass
        return kill_child(loop.pid, "sleep")
    finally:
        os.killpg(loop.pid, signal.SIGKILL)
        loop.wait()


def agent_round(cells: list[float], programs: list[float]) -> None:
    """A daemon for each of the two numbers, whose agent dies once."""
    for measured in (cells, programs):
        with Daemon() as daemon:
            session = daemon.session()
            raw = RawHttp(daemon)
            raw.cell(session, "1")
            if measured is programs:
                programs.append(kill_child(daemon.pid, "albedo-hostagent"))
            else:
                began = time.perf_counter()
                os.kill(child_running(daemon.pid, "albedo-hostagent"), signal.SIGKILL)
                result = raw.cell(session, "1+1")
                cells.append(time.perf_counter() - began)
                assert result["value"] == "2", result
            raw.close()


def main() -> None:
    cells: list[float] = []
    programs: list[float] = []
    starts: list[float] = []
    loops: list[float] = []
    for _ in range(5 if QUICK else 30):
        starts.append(python_start())
        loops.append(bare_loop())
        agent_round(cells, programs)
    row(GROUP, "to its program running again", scaled(programs, 1e3), "ms",
        ratio(programs, loops, "a shell's loop", 3))
    row(GROUP, "a shell's loop: to its program running again", scaled(loops, 1e3), "ms")
    row(GROUP, "to its next cell, local kernel", scaled(cells, 1e3), "ms",
        ratio(cells, starts, "python3 -I -c pass", 2))
    row(GROUP, "python3 -I -c pass", scaled(starts, 1e3), "ms")


if __name__ == "__main__":
    main()
