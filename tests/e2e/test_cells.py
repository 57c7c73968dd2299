"""A cell through everything: run once by its id, waited for, read, followed, interrupted, and found
again whole after SIGKILL of each process on its way."""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import os
import signal
import sys
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import Daemon, HttpError, uuid7, wait_until  # noqa: E402

LINES = 120
COUNTER = f"""
import time
with open("runs", "a") as file:
    file.write("once\\n")
for number in range({LINES}):
    print("line", number, flush=True)
    time.sleep(0.02)
"all"
"""
EXPECTED = "".join(f"line {number}\n" for number in range(LINES))


def result_of(daemon: Daemon, session: str, cell: str, seconds: float = 60) -> dict:
    """The cell's result once it has ended, over restarts of whatever answers."""

    def ended() -> dict | None:
        try:
            found = daemon.get(f"/sessions/{session}/cells/{cell}")
        except (OSError, http.client.HTTPException, ValueError):
            return None
        except HttpError as failure:
            if failure.status == 503:
                return None
            raise
        return found if found["status"] not in ("queued", "running") else None

    return wait_until(ended, seconds, f"the end of cell {cell}")


def output_of(daemon: Daemon, session: str, cell: str, limit: int = 100_000) -> bytes:
    """The whole output, page by page."""
    whole = b""
    while page := daemon.request("GET", f"/sessions/{session}/cells/{cell}/output?offset={len(whole)}&limit={limit}"):
        whole += page
    return whole


def streamed(daemon: Daemon, session: str, cell: str) -> tuple[str, dict | None]:
    """What a follower sees that comes back with Last-Event-ID until the result is there."""
    text, last, done = "", "", None
    deadline = time.monotonic() + 60
    while done is None and time.monotonic() < deadline:
        try:
            for name, data, event_id in daemon.stream(f"/sessions/{session}/cells/{cell}/stream", last):
                last = event_id
                if name == "output":
                    text += json.loads(data)["text"]
                elif name == "done":
                    done = json.loads(data)
        except (OSError, HttpError, http.client.HTTPException, ValueError):
            time.sleep(0.02)  # whoever answered was killed; the record of a new daemon may not be read yet
    return text, done


class Cells(unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = self.enterContext(Daemon())
        self.session = self.daemon.session()

    def path(self, cell: str = "", rest: str = "") -> str:
        return f"/sessions/{self.session}/cells" + (f"/{cell}{rest}" if cell else "")

    def test_a_cell_gives_its_value_output_and_error(self) -> None:
        result = self.daemon.cell(self.session, "print('hello')\n6 * 7")
        self.assertEqual((result["status"], result["value"], result["output"]), ("ok", "42", "hello\n"))
        self.assertFalse(result["truncated"])
        failed = self.daemon.cell(self.session, "x = 5\nx / 0")
        self.assertEqual(failed["status"], "error")
        self.assertEqual(failed["error"]["name"], "ZeroDivisionError")
        self.assertIn("x / 0", failed["error"]["traceback"])
        self.assertEqual(self.daemon.cell(self.session, "x")["value"], "5")
        listed = self.daemon.get(self.path())
        self.assertEqual([cell["status"] for cell in listed], ["ok", "error", "ok"])

    def test_the_same_operation_runs_once_also_side_by_side(self) -> None:
        operation = uuid7()
        body = {"code": "import os\nopen('ran', 'a').write('x')\nos.getpid()", "operationId": operation}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: self.daemon.post(self.path() + "?wait=true", body), range(8)))
        self.assertEqual({answer["cellId"] for answer in answers}, {operation})
        self.assertEqual(len({answer["value"] for answer in answers}), 1)
        self.assertEqual((self.daemon.workspace / "ran").read_text(), "x")
        with self.assertRaises(HttpError) as refused:
            self.daemon.post(self.path(), {"code": "other", "operationId": operation})
        self.assertEqual(refused.exception.status, 409)
        for number in range(20):  # so that it is no longer among the newest
            self.daemon.cell(self.session, str(number))
        self.assertEqual(self.daemon.post(self.path() + "?wait=true", body)["value"], answers[0]["value"])
        self.daemon.kill(self.daemon.pid)
        self.daemon.boot()
        self.assertEqual(self.daemon.post(self.path() + "?wait=true", body)["value"], answers[0]["value"])
        self.assertEqual((self.daemon.workspace / "ran").read_text(), "x")

    def test_operation_ids_are_judged(self) -> None:
        now = time.time_ns() // 1_000_000
        for made, status in ((now + 10 * 60_000, 400), (now - 8 * 24 * 3_600_000, 410)):
            digits = f"{made:012x}" + "7" + os.urandom(2).hex()[:3] + "8" + os.urandom(8).hex()[:15]
            operation = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
            with self.assertRaises(HttpError) as refused:
                self.daemon.post(self.path(), {"code": "1", "operationId": operation})
            self.assertEqual(refused.exception.status, status)
        with self.assertRaises(HttpError) as refused:
            self.daemon.post(self.path(), {"code": "1", "operationId": "11111111-1111-4111-8111-111111111111"})
        self.assertEqual(refused.exception.status, 400)

    def test_output_is_paged_and_streamed_byte_for_byte(self) -> None:
        cell = self.daemon.start_cell(self.session, "for n in range(40000): print('é', n)")
        expected = "".join(f"é {n}\n" for n in range(40000)).encode()
        text, done = streamed(self.daemon, self.session, cell)
        self.assertEqual(text.encode(), expected)
        self.assertEqual(done["output_bytes"], len(expected))
        self.assertTrue(done["truncated"])
        self.assertEqual(output_of(self.daemon, self.session, cell), expected)
        past = self.daemon.request("GET", self.path(cell, f"/output?offset={len(expected) + 5}"))
        self.assertEqual(past, b"")

    def test_raw_output_is_followed_to_its_end(self) -> None:
        code = "import sys, time\nfor i in range(40):\n    sys.stdout.buffer.write(bytes([i, 255]) * 50_000); time.sleep(0.01)"
        expected = b"".join(bytes([i, 255]) * 50_000 for i in range(40))
        cell = self.daemon.start_cell(self.session, code)
        self.assertEqual(self.daemon.request("GET", self.path(cell, "/output?follow=true")), expected)
        self.assertEqual(result_of(self.daemon, self.session, cell)["output_bytes"], len(expected))
        rest = self.daemon.request("GET", self.path(cell, f"/output?follow=true&offset={len(expected) - 3}"))
        self.assertEqual(rest, expected[-3:])

    def test_raw_output_that_is_lost_breaks_off(self) -> None:
        cell = self.daemon.start_cell(self.session, "import sys; sys.stdout.write('x' * (40 << 20))")
        result_of(self.daemon, self.session, cell)
        with self.assertRaises(http.client.IncompleteRead):
            self.daemon.request("GET", self.path(cell, "/output?follow=true"))

    def test_a_stream_resumes_in_the_middle(self) -> None:
        cell = self.daemon.start_cell(self.session, "print('0123456789' * 10)")
        result_of(self.daemon, self.session, cell)
        events = list(self.daemon.stream(self.path(cell, "/stream"), "95"))
        self.assertEqual([name for name, _, _ in events], ["output", "done"])
        self.assertEqual(json.loads(events[0][1]), {"offset": 95, "text": "56789\n"})
        self.assertEqual(events[0][2], "101")

    def test_an_interrupt_ends_the_cell_and_keeps_the_names(self) -> None:
        self.daemon.cell(self.session, "kept = 1")
        cell = self.daemon.start_cell(self.session, "import time\ntime.sleep(60)")
        wait_until(lambda: self.daemon.get(self.path(cell))["status"] == "running", 20, "the cell runs")
        self.daemon.post(self.path(cell, "/interrupt"), {})
        self.assertEqual(result_of(self.daemon, self.session, cell)["status"], "interrupted")
        self.assertEqual(self.daemon.cell(self.session, "kept")["value"], "1")

    def test_a_deleted_session_ends_its_kernel(self) -> None:
        pid = int(self.daemon.cell(self.session, "import os; os.getpid()")["value"])
        self.daemon.request("DELETE", f"/sessions/{self.session}")
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), 15, "the end of the worker")
        with self.assertRaises(HttpError) as gone:
            self.daemon.get(f"/sessions/{self.session}")
        self.assertEqual(gone.exception.status, 404)

    def test_a_kernel_killed_by_somebody_makes_its_cell_lost_and_the_next_one_works(self) -> None:
        cell = self.daemon.start_cell(self.session, "import time\ntime.sleep(60)")
        wait_until(lambda: self.daemon.get(self.path(cell))["status"] == "running", 20, "the cell runs")
        keeper = self.daemon.get(f"/sessions/{self.session}/status")["kernel"]["pid"]
        os.kill(keeper, signal.SIGKILL)
        self.assertEqual(result_of(self.daemon, self.session, cell)["status"], "lost")
        self.assertEqual(self.daemon.cell(self.session, "1 + 1")["value"], "2")


class Faults(unittest.TestCase):
    """SIGKILL of one process in the middle of a cell: no line is lost, nothing runs twice."""

    def setUp(self) -> None:
        self.daemon = self.enterContext(Daemon())
        self.session = self.daemon.session()
        self.daemon.cell(self.session, "0")  # the kernel is up

    def survives(self, fault) -> None:
        seen: dict = {}
        cell = self.daemon.start_cell(self.session, COUNTER)
        follower = threading.Thread(target=lambda: seen.update(
            zip(("text", "done"), streamed(self.daemon, self.session, cell))))
        follower.start()
        wait_until(lambda: (self.daemon.workspace / "runs").exists(), 20, "the cell runs")
        for _ in range(3):
            time.sleep(0.3)  # the fault falls into the middle of the output, three times
            fault()
        result = result_of(self.daemon, self.session, cell)
        follower.join(60)
        self.assertEqual((result["status"], result["value"]), ("ok", "'all'"))
        self.assertEqual(result["output"], EXPECTED)
        self.assertEqual(seen["text"], EXPECTED)
        self.assertEqual(seen["done"]["status"], "ok")
        self.assertEqual(output_of(self.daemon, self.session, cell).decode(), EXPECTED)
        self.assertEqual((self.daemon.workspace / "runs").read_text(), "once\n")
        self.assertEqual(self.daemon.cell(self.session, "number")["value"], str(LINES - 1))

    def kill_all(self, name: str) -> None:
        for pid in self.daemon.processes(name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def test_bridge(self) -> None:
        self.survives(lambda: self.kill_all("albedo_bridge.py"))

    def test_agent(self) -> None:
        self.survives(lambda: self.kill_all("albedo-hostagent"))

    def test_api(self) -> None:
        self.survives(lambda: self.kill_all("albedo-api"))

    def test_supervisor(self) -> None:
        def fault() -> None:
            self.daemon.kill(self.daemon.pid)
            self.daemon.boot()

        self.survives(fault)

    def test_cells_sent_while_the_api_dies_run_once_each(self) -> None:
        operations = [uuid7() for _ in range(30)]

        def send(operation: str) -> None:
            body = {"code": f"open('each', 'a').write('{operation}\\n')", "operationId": operation}
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                try:
                    return self.daemon.post(f"/sessions/{self.session}/cells", body)
                except (OSError, http.client.HTTPException, ValueError):
                    time.sleep(0.01)
                except HttpError as failure:
                    if failure.status != 503:
                        raise
                    time.sleep(0.01)
            raise AssertionError("never accepted")

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            sent = [pool.submit(send, operation) for operation in operations]
            for _ in range(3):
                time.sleep(0.05)
                self.kill_all("albedo-api")
            for one in sent:
                one.result()
        for operation in operations:
            self.assertEqual(result_of(self.daemon, self.session, operation)["status"], "ok")
        ran = (self.daemon.workspace / "each").read_text().split()
        self.assertEqual(sorted(ran), sorted(operations))


if __name__ == "__main__":
    unittest.main()
