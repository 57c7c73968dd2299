"""Cells on a host behind real OpenSSH, through the whole daemon, while parts of the way are killed."""

from __future__ import annotations

import os
import signal
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support import sshd  # noqa: E402
from support.harness import Daemon, alive, wait_until  # noqa: E402


@unittest.skipUnless(sshd.available(), "needs root, sshd and ssh-keygen")
class HostTests(unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = self.enterContext(Daemon(start=False))
        self.server = self.enterContext(sshd.Sshd(self.daemon.root / "sshd"))
        self.daemon.environment["PATH"] = f"{self.server.bin}:{self.daemon.environment['PATH']}"
        self.daemon.environment["XDG_RUNTIME_DIR"] = str(self.server.runtime)
        self.daemon.boot()
        # Before the server goes: kernels there are ended by the daemon's sweep, masters by its stop.
        self.addCleanup(self.daemon.stop)

    def value(self, session: str, code: str) -> str:
        result = self.daemon.cell(session, code)
        self.assertEqual(result.get("status"), "ok", result)
        return result["value"]

    def ended(self, session: str, cell: str, seconds: float = 30) -> dict:
        """The cell's result, once it has one."""
        path = f"/sessions/{session}/cells/{cell}"
        wait_until(lambda: self.daemon.get(path)["status"] not in ("queued", "running"), seconds, "the cell's end")
        return self.daemon.get(path)

    def agent(self, host: str) -> int:
        [pid] = [
            pid for pid in self.daemon.processes("albedo-hostagent")
            if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1] == host.encode()
        ]
        return pid

    def bridge_calls(self) -> int:
        return self.server.calls("albedo_bridge.py")

    def test_a_cell_runs_on_the_host_over_one_sign_in(self) -> None:
        session = self.daemon.session(f"box:{self.server.home}")
        self.assertEqual(
            self.value(session, "import os; (os.getcwd(), os.environ['HOME'])"),
            repr((str(self.server.home), str(self.server.home))),
        )
        self.assertEqual(self.server.sign_ins(), 1)
        self.assertEqual(self.server.calls(".part."), 1)
        host = self.daemon.get("/hosts/box")
        self.assertEqual(host["state"], "ready")
        self.assertEqual(host["home"], str(self.server.home))

    def test_agent_bridge_and_connection_killed_lose_nothing(self) -> None:
        session = self.daemon.session(f"box:{self.server.home}")
        pid = self.value(session, "import os, time; count = 0; os.getpid()")
        for number, victim in enumerate(("agent", "bridge", "connection", "master"), 1):
            with self.subTest(victim=victim):
                cell = self.daemon.start_cell(session, "count += 1; time.sleep(1.0); print('woke'); count")
                calls = self.bridge_calls()
                if victim == "agent":
                    os.kill(self.agent("box"), signal.SIGKILL)
                elif victim == "bridge":
                    for bridge in self.daemon.processes("albedo_bridge.py"):
                        if b"\0-I\0" in Path(f"/proc/{bridge}/cmdline").read_bytes():
                            os.kill(bridge, signal.SIGKILL)
                elif victim == "connection":
                    self.server.stop()
                    self.server.start()
                else:
                    for master in self.server.masters():
                        os.kill(master, signal.SIGKILL)
                wait_until(lambda: self.bridge_calls() > calls, 20, "another bridge")
                answer = self.ended(session, cell)
                self.assertEqual((answer["status"], answer["value"], answer["output"]), ("ok", str(number), "woke\n"), answer)
        self.assertEqual(self.value(session, "os.getpid()"), pid)

    def test_a_host_that_is_down_for_a_while_comes_back_by_itself(self) -> None:
        session = self.daemon.session(f"box:{self.server.home}")
        self.value(session, "x = 1")
        self.server.stop()
        cell = self.daemon.start_cell(session, "x + 1")
        wait_until(lambda: self.daemon.get("/hosts/box")["state"] == "unreachable", 20, "the host's state")
        self.server.start()
        answer = self.ended(session, cell)
        self.assertEqual((answer["status"], answer["value"]), ("ok", "2"), answer)

    def test_the_daemons_end_ends_our_connection_and_the_next_one_finds_the_kernel(self) -> None:
        session = self.daemon.session(f"box:{self.server.home}")
        pid = int(self.value(session, "import os; x = 5; os.getpid()"))
        wait_until(self.server.masters, 5, "the control connection")
        self.daemon.stop()
        self.assertEqual(self.server.masters(), [])
        self.assertTrue(alive(pid))
        self.daemon.boot()
        self.assertEqual(self.value(session, "(x, os.getpid())"), repr((5, pid)))


if __name__ == "__main__":
    unittest.main()
