"""SIGKILL at random instants to every process between a cell and its reader: no line is lost.

The seed is printed; ALBEDO_TEST_SEED repeats one run's choices. With ALBEDO_TEST_LONG the cell is
ten times as long and so is the killing.
"""

from __future__ import annotations

import os
import random
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from harness import Daemon, HttpError, wait_until  # noqa: E402

LONG = bool(os.environ.get("ALBEDO_TEST_LONG"))
LINES = 100_000 if LONG else 10_000
PAUSE_EVERY = 10  # lines; each pause is 20 ms, so that 10,000 lines take about 20 s
PATIENCE = 300 if LONG else 90
# More deaths a minute than this put a child into `failed`, as they should.
KILLS_A_MINUTE = 8
VICTIMS = ("albedo_bridge.py", "albedo-hostagent", "albedo-api", "albedo-supervisor")

COUNTER = f"""
import time
runs = globals().get("runs", 0) + 1
for number in range({LINES}):
    print(number)
    if number % {PAUSE_EVERY} == 0:
        time.sleep(0.02)
(runs, number)
"""


class Killer:
    """Kills one random process of the spine after another, none too often for its restart policy."""

    def __init__(self, daemon: Daemon, choices: random.Random) -> None:
        self.daemon = daemon
        self.choices = choices
        self.killed: dict[str, list[float]] = {name: [] for name in VICTIMS}

    def strike(self) -> None:
        now = time.monotonic()
        free = [n for n in VICTIMS if sum(now - t < 60 for t in self.killed[n]) < KILLS_A_MINUTE]
        if not free:
            return
        name = self.choices.choice(free)
        found = self.daemon.processes(name)
        if not found:  # between two lives
            return
        self.daemon.kill(self.choices.choice(found))
        self.killed[name].append(now)
        if name == "albedo-supervisor":
            self.daemon.boot()

    def text(self) -> str:
        return ", ".join(f"{name} {len(times)}" for name, times in self.killed.items())


class ChaosSpine(unittest.TestCase):
    def test_all_lines_once_and_in_order_whoever_is_killed(self) -> None:
        seed = int(os.environ.get("ALBEDO_TEST_SEED") or random.randrange(1 << 32))
        print(f"seed {seed}", flush=True)
        choices = random.Random(seed)
        with Daemon() as daemon:
            pid = daemon.cli("exec", "import os; os.getpid()").stdout
            reader = daemon.start_cli("exec", COUNTER)
            os.set_blocking(reader.stdout.fileno(), False)
            killer = Killer(daemon, choices)
            output = b""
            deadline = time.monotonic() + PATIENCE
            next_strike = time.monotonic() + 0.5
            while reader.poll() is None:
                self.assertLess(time.monotonic(), deadline,
                                f"seed {seed}, killed {killer.text()}, read {len(output)} bytes, "
                                f"last {output[-40:]!r}\n{daemon.log_tail()}")
                output += reader.stdout.read() or b""
                if time.monotonic() >= next_strike:
                    killer.strike()
                    next_strike = time.monotonic() + choices.uniform(0.05, 1.0)
                time.sleep(0.005)
            output += reader.stdout.read() or b""
            errors = reader.stderr.read().decode()
            print(f"killed: {killer.text()}", flush=True)
            self.assertGreaterEqual(sum(map(len, killer.killed.values())), 8)

            expected = [str(n) for n in range(LINES)] + [f"(1, {LINES - 1})"]
            got = output.decode().splitlines()
            wrong = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b), min(len(got), len(expected)))
            self.assertEqual((reader.returncode, got[wrong - 2:wrong + 3]), (0, expected[wrong - 2:wrong + 3]),
                             f"seed {seed}: differs at line {wrong} of {len(got)}; {errors}")
            self.assertEqual(got, expected)
            self.assertEqual(errors, "")

            # The kernel is the one of before, ran the cell once, and still has all of its output.
            self.assertEqual(daemon.cli("exec", "os.getpid(), runs").stdout, f"({pid.strip()}, 1)\n")
            self.assertEqual(len(daemon.processes("albedo-supervisor")), 1)

    def test_a_result_waits_for_its_reader_over_every_restart(self) -> None:
        """Each part is killed while a cell runs that nobody watches; its result is fetched after."""
        for name in VICTIMS:
            with self.subTest(victim=name), Daemon() as daemon:
                session = daemon.session()
                daemon.cell(session, "times = 0")
                cell = daemon.start_cell(session, "import time\ntimes += 1\nprint('a')\ntime.sleep(1)\nprint('b')\ntimes")
                for pid in daemon.processes(name):
                    daemon.kill(pid)
                daemon.boot()

                def ended() -> dict | None:
                    try:
                        result = daemon.get(f"/sessions/{session}/cells/{cell}")
                    except (HttpError, OSError):
                        return None
                    return result if result["status"] not in ("queued", "running") else None

                result = wait_until(ended, 30, f"the cell's end after {name} was killed")
                self.assertEqual((result["status"], result["output"], result["value"]), ("ok", "a\nb\n", "1"))


if __name__ == "__main__":
    unittest.main()
