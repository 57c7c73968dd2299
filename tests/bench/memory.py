#!/usr/bin/python3
"""What the processes of a daemon with many hosts take while idle: PSS, and CPU over some seconds.

The hosts are stand-ins: a program named ssh runs their commands here, each with a home of its own.
"""

import time
from concurrent.futures import ThreadPoolExecutor

from measure import QUICK, Daemon, cpu_seconds, pss_kib, row

GROUP = "memory"
HOSTS = 10 if QUICK else 50
IDLE_SECONDS = 3 if QUICK else 10

FAKE_SSH = """#!/bin/sh
# Skips options, takes the first other word as the host and runs the rest here, in that host's home.
while [ $# -gt 0 ]; do
    case $1 in
        -G) exit 0 ;;
        -o) shift 2 ;;
        -*) shift ;;
        *) break ;;
    esac
done
home=@ROOT@/homes/$1; shift
mkdir -p "$home"
exec env -i HOME="$home" PATH=/usr/bin:/bin SHELL=/bin/sh /bin/sh -c "$*"
"""


def main() -> None:
    with Daemon(start=False) as daemon:
        programs = daemon.root / "bin"
        programs.mkdir()
        ssh = programs / "ssh"
        ssh.write_text(FAKE_SSH.replace("@ROOT@", str(daemon.root)))
        ssh.chmod(0o755)
        daemon.environment["PATH"] = f"{programs}:{daemon.environment['PATH']}"
        daemon.boot()
        began = time.perf_counter()
        with ThreadPoolExecutor(8) as pool:
            states = list(pool.map(lambda i: daemon.post(f"/hosts/host-{i}/warm", {})["state"], range(HOSTS)))
        assert states == ["ready"] * HOSTS, states
        row(GROUP, f"{HOSTS} hosts asked at once: all ready", [time.perf_counter() - began], "s")
        agents = daemon.processes("albedo-hostagent")
        assert len(agents) >= HOSTS, agents
        before = sum(map(cpu_seconds, agents))
        time.sleep(IDLE_SECONDS)
        busy = (sum(map(cpu_seconds, agents)) - before) / IDLE_SECONDS * 100
        sizes = [pss_kib(pid) / 1024 for pid in agents]
        row(GROUP, f"an idle agent among {len(agents)}", sizes, "MiB PSS",
            f"target 1 MiB: {'met' if max(sizes) < 1 else 'MISSED'}")
        row(GROUP, f"all {len(agents)} agents idle", [busy], "% of a core")
        for name in ("albedo-api", "albedo-supervisor"):
            row(GROUP, name, [pss_kib(pid) / 1024 for pid in daemon.processes(name)], "MiB PSS")


if __name__ == "__main__":
    main()
