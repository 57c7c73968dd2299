#!/usr/bin/python3
"""A host's agent is killed: how long until it answers again, beside a bare fork/exec loop, and
until the next cell has its answer, beside one start of Python.

Every round has a daemon of its own: the restart policy answers a first death at once and later
ones with growing pauses, which are not what is measured here. Before each kill both sides were
idle for IDLE_SECONDS, so that both pay alike for a machine that went to rest.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import time
from pathlib import Path

from measure import PYTHON, QUICK, Daemon, RawHttp, ratio, row, scaled

GROUP = "agent killed"
IDLE_SECONDS = 0.3


class Floor:
    """fork, exec, waitpid, and again; `wait` gives the pid of the next child once it runs."""

    def __init__(self, daemon: Daemon) -> None:
        program = Path(daemon.program).resolve().parent.parent / "bench/respawn_floor"
        self.reading, writing = os.pipe()
        self.loop = subprocess.Popen([program, str(writing)], pass_fds=(writing,))
        os.close(writing)
        self.child = self.wait()

    def wait(self) -> int:
        return struct.unpack("i", os.read(self.reading, 4))[0]

    def kill_child(self) -> float:
        began = time.perf_counter()
        os.kill(self.child, signal.SIGKILL)
        self.child = self.wait()
        return time.perf_counter() - began

    def close(self) -> None:
        self.loop.kill()
        self.loop.wait()
        os.close(self.reading)


def python_start() -> float:
    began = time.perf_counter()
    subprocess.run([PYTHON, "-I", "-c", "pass"], check=True)
    return time.perf_counter() - began


def one_death(wanted: str) -> tuple[float, float]:
    """Seconds from SIGKILL of the agent to the answer `wanted`, and those of the floor beside it."""
    with Daemon() as daemon:
        session = daemon.session()
        raw = RawHttp(daemon)
        raw.cell(session, "1")
        agent = raw.request("GET", "/hosts/local/ping")["pid"]
        floor = Floor(daemon)
        time.sleep(IDLE_SECONDS)
        beside = floor.kill_child()
        floor.close()
        time.sleep(IDLE_SECONDS)
        began = time.perf_counter()
        os.kill(agent, signal.SIGKILL)
        if wanted == "ping":
            assert raw.request("GET", "/hosts/local/ping")["pid"] != agent
        else:
            assert raw.cell(session, "1+1")["value"] == "2"
        took = time.perf_counter() - began
        raw.close()
        return took, beside


def main() -> None:
    pings: list[float] = []
    cells: list[float] = []
    floors: list[float] = []
    starts: list[float] = []
    for _ in range(5 if QUICK else 30):
        starts.append(python_start())
        ping, beside = one_death("ping")
        pings.append(ping)
        floors.append(beside)
        cells.append(one_death("cell")[0])
    row(GROUP, "to its next answer", scaled(pings, 1e3), "ms",
        ratio(pings, floors, "fork, exec, waitpid", 3))
    row(GROUP, "fork, exec, waitpid: to the first act of main()", scaled(floors, 1e3), "ms")
    row(GROUP, "to the next cell's answer, local kernel", scaled(cells, 1e3), "ms",
        ratio(cells, starts, "python3 -I -c pass", 2))
    row(GROUP, "python3 -I -c pass", scaled(starts, 1e3), "ms")


if __name__ == "__main__":
    main()
