#!/usr/bin/python3
"""A host's agent is killed: how long until its next cell, beside one start of Python; and until
the next agent says it is ready, beside a bare fork/exec of the same program."""

import os
import signal
import subprocess
import time

from measure import PYTHON, QUICK, Daemon, RawHttp, percentile, ratio, row, scaled

GROUP = "agent killed"
# Past the restart policy's window for "at once": a kill every so often is not a crash loop.
PAUSE_SECONDS = 7.0


def python_start() -> float:
    began = time.perf_counter()
    subprocess.run([PYTHON, "-I", "-c", "pass"], check=True)
    return time.perf_counter() - began


def fork_exec() -> float:
    """A process of our own kind, from fork to its end: the program asked for nothing."""
    began = time.perf_counter()
    os.waitpid(os.posix_spawn("/bin/true", ["/bin/true"], {}), 0)
    return time.perf_counter() - began


def new_agent(daemon: Daemon, before: int, deadline: float) -> None:
    """Until another process is the agent."""
    while time.perf_counter() < deadline:
        found = daemon.processes("albedo-hostagent")
        if found and before not in found:
            return
    raise TimeoutError("no new agent")


def main() -> None:
    rounds = 4 if QUICK else 20
    cells, starts, forks = [], [], []
    with Daemon() as daemon:
        session = daemon.session()
        raw = RawHttp(daemon)
        raw.cell(session, "1")
        for _ in range(rounds):
            starts.append(python_start())
            forks.append(fork_exec())
            agent, = daemon.processes("albedo-hostagent")
            began = time.perf_counter()
            os.kill(agent, signal.SIGKILL)
            result = raw.cell(session, "1+1")
            cells.append(time.perf_counter() - began)
            assert result["value"] == "2", result
            new_agent(daemon, agent, time.perf_counter() + 5)
            time.sleep(0.2 if percentile(cells, 50) > PAUSE_SECONDS else PAUSE_SECONDS)
        raw.close()
    row(GROUP, "to its next cell, local kernel", scaled(cells, 1e3), "ms",
        ratio(cells, starts, "python3 -I -c pass", 2))
    row(GROUP, "python3 -I -c pass", scaled(starts, 1e3), "ms")
    row(GROUP, "fork, exec and end of /bin/true", scaled(forks, 1e3), "ms")


if __name__ == "__main__":
    main()
