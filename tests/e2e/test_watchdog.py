"""A hostagent that stops answering is replaced by the watchdog: its kernels and running cells carry
on, and meanwhile no other request waits."""

from __future__ import annotations

import os
import signal
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import Daemon, wait_until  # noqa: E402

# Hung is 10 s without a beat, 2.5 s apart; then SIGABRT, 2 s, SIGKILL, and a start.
REPLACED_SECONDS = 30
COUNTER = "import time\nfor n in range(150):\n    print(n, flush=True)\n    time.sleep(0.1)\n'whole'"


class WatchdogTests(unittest.TestCase):
    def test_a_stopped_agent_is_replaced_and_its_cell_is_whole(self):
        with Daemon() as daemon:
            session = daemon.session()
            self.assertEqual(daemon.cell(session, "1+1")["value"], "2")
            (agent,) = daemon.processes("albedo-hostagent")
            cell = daemon.start_cell(session, COUNTER)
            os.kill(agent, signal.SIGSTOP)
            slowest = 0.0

            def replaced() -> bool:
                nonlocal slowest
                began = time.monotonic()
                daemon.get("/sessions")
                daemon.get(f"/sessions/{session}/status")
                slowest = max(slowest, time.monotonic() - began)
                agents = daemon.processes("albedo-hostagent")
                return bool(agents) and agent not in agents

            wait_until(replaced, REPLACED_SECONDS, "another agent")
            self.assertLess(slowest, 5, "a request waited for the stopped agent")

            def ended() -> dict | None:
                found = daemon.get(f"/sessions/{session}/cells/{cell}")
                return found if found["status"] not in ("queued", "running") else None

            result = wait_until(ended, REPLACED_SECONDS, "the cell's end")
            self.assertEqual((result["status"], result["value"]), ("ok", "'whole'"))
            self.assertEqual(result["output"], "".join(f"{n}\n" for n in range(150)))
            boxes = list((daemon.home / "blackbox").iterdir())
            self.assertTrue(boxes, "the death left no black box")

    def test_a_browse_of_a_stopped_agent_ends_at_its_deadline(self):
        with Daemon() as daemon:
            daemon.get(f"/fs/list?path={daemon.workspace}")
            (agent,) = daemon.processes("albedo-hostagent")
            os.kill(agent, signal.SIGSTOP)
            began = time.monotonic()
            try:
                daemon.get(f"/fs/list?path={daemon.workspace}", timeout=60)
            except Exception as refused:  # 503: the agent died under the call
                self.assertIn(getattr(refused, "status", None), (503, 504), refused)
            self.assertLess(time.monotonic() - began, REPLACED_SECONDS)
            self.assertTrue(daemon.get(f"/fs/list?path={daemon.workspace}")["path"])


if __name__ == "__main__":
    unittest.main()
