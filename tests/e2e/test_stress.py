"""`albedo stress`, and the faults it asks for: nothing is lost, nothing runs twice, nothing stays."""

from __future__ import annotations

import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import Daemon, HttpError, wait_until  # noqa: E402
from sshd import Sshd, available  # noqa: E402

SECONDS = 60


class StressTest(unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = Daemon(start=False)
        self.daemon.__enter__()
        self.addCleanup(lambda: self.daemon.__exit__(None, None, None))

    def stress(self, *words: str) -> dict:
        report = json.loads(self.daemon.cli("stress", *words, "--json", timeout=SECONDS).stdout)
        self.assertTrue(report["ok"], report)
        self.assertEqual((report["lost"], report["doubled"], report["problems"]), (0, 0, []))
        self.assertEqual(self.daemon.get("/sessions"), [])
        return report

    def test_a_local_load_with_a_bridge_and_an_agent_that_die(self) -> None:
        self.daemon.boot()
        report = self.stress("local", "--sessions", "3", "--cells", "100000", "--seconds", "6",
                             "--faults", "bridge,agent", "--seed", "11", "--output", "20000")
        self.assertGreaterEqual(sum(report["faults"].values()), 2)
        self.assertEqual(report["back"]["n"], sum(report["faults"].values()))
        self.assertGreater(report["bytes"], 20000)
        wait_until(lambda: not list((self.daemon.home / "run").iterdir()), SECONDS, "the end of its kernels")

    @unittest.skipUnless(available(), "no sshd on this machine")
    def test_a_remote_load_whose_connection_is_cut_while_local_is_watched(self) -> None:
        with Sshd(self.daemon.root / "sshd") as sshd:
            self.daemon.environment["PATH"] = f"{sshd.bin}:{self.daemon.environment['PATH']}"
            self.daemon.environment["XDG_RUNTIME_DIR"] = str(sshd.runtime)
            self.daemon.boot()
            report = self.stress("box", "--sessions", "2", "--cells", "100000", "--seconds", "8",
                                 "--faults", "bridge,ssh,agent", "--seed", "4")
            self.assertGreaterEqual(sum(report["faults"].values()), 2)
            other, = report["others"]
            self.assertEqual(other["host"], "local")
            self.assertGreater(other["beside"]["n"], 10)
            self.assertIn("nothing was lost", self.daemon.cli("stress", "box", "--cells", "5", "--sessions", "1",
                                                              timeout=SECONDS).stdout)
            self.daemon.stop()

    def test_an_agent_that_stops_or_spins_is_replaced_under_its_kernel(self) -> None:
        self.daemon.boot()
        session = self.daemon.session()
        self.daemon.cell(session, "x = 3")
        for count, kind in enumerate(("spin", "stop"), 1):
            with self.subTest(kind):
                self.daemon.post("/hosts/local/faults", {"kind": kind, "confirm": "local"})
                self.assertEqual(self.daemon.cell(session, "x")["value"], "3")
                agent = self.daemon.get("/hosts/local/agent")["agent"]
                self.assertEqual(agent["restarts"], count)
                self.assertIn("hung", agent["last_death"])

    def test_a_fault_is_never_made_by_accident(self) -> None:
        self.daemon.boot()
        self.daemon.cell(self.daemon.session(), "1")
        before = self.daemon.processes("albedo-hostagent")
        for body in ({"kind": "agent"}, {"kind": "agent", "confirm": "other"}, {"kind": "none", "confirm": "local"},
                     {"confirm": "local"}, {}):
            with self.assertRaises(HttpError) as refused:
                self.daemon.post("/hosts/local/faults", body)
            self.assertEqual(refused.exception.status, 400)
        self.assertEqual(self.daemon.processes("albedo-hostagent"), before)


if __name__ == "__main__":
    unittest.main()
