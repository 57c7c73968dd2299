"""A kernel is released and the session's next one has its names again."""
from __future__ import annotations

import os
import unittest

import kernel_rig

SESSION = "0192-session"


class StateTest(unittest.TestCase):
    def setUp(self) -> None:
        self.home = kernel_rig.Home()
        self.addCleanup(lambda: self.assertEqual(self.home.close(), []))
        self.file = os.path.join(self.home.path, ".albedo-remote", "state", SESSION)

    def kernel(self, **more) -> kernel_rig.Kernel:
        return kernel_rig.Kernel(self.home).start(self.home.bridge(), session=SESSION, **more)

    def release(self, kernel: kernel_rig.Kernel) -> dict:
        kernel.tell(t="release")
        report = kernel.wait_for("released")
        self.home.ladder(kernel.run)
        return report

    def value(self, kernel: kernel_rig.Kernel, code: str) -> str:
        done = kernel.cell(code)
        self.assertEqual(done["status"], "ok", done)
        return done["value"]

    def test_names_come_back(self) -> None:
        first = self.kernel()
        first.cell("import json as j, os.path\nfrom collections import OrderedDict as Od\nx = [1, 2]")
        first.cell("class P:\n    def __init__(self, a): self.a = a\n\ndef double(n):\n    return 2 * n\np = P(41)")
        first.cell("import functools\n@functools.lru_cache\ndef triple(n, by=3):\n    return by * n")
        report = self.release(first)
        self.assertGreaterEqual(set(report["saved"]), {"x", "p"})
        self.assertTrue(os.path.exists(self.file))
        self.assertEqual(os.stat(self.file).st_mode & 0o777, 0o600)
        second = self.kernel()
        told = second.wait_for("restored")
        self.assertGreaterEqual(set(told["defined"]), {"P", "double", "triple", "j", "Od", "os", "functools"})
        self.assertEqual(told["skipped"], [])
        self.assertEqual(self.value(second, "x, p.a, isinstance(p, P), double(4), triple(5), j.dumps(1), "
                                            "Od.__name__, os.path.sep"), "([1, 2], 41, True, 8, 15, '1', 'OrderedDict', '/')")
        self.assertFalse(os.path.exists(self.file), "a state is used once")
        trace = second.cell("double(None)")["error"]["traceback"]
        self.assertIn("return 2 * n", trace)
        # What came back goes on to the kernel after it.
        report = self.release(second)
        third = self.kernel()
        third.wait_for("restored")
        self.assertEqual(self.value(third, "double(p.a)"), "82")

    def test_what_cannot_be_kept_costs_itself_alone(self) -> None:
        first = self.kernel()
        first.cell("import threading\nlock = threading.Lock()\nbig = bytes(9 << 20)\nfine = 7\n"
                   "file = open('/dev/null')\ngen = (n for n in [1])\nf = lambda: 1")
        first.cell("class Bad:\n    def __reduce__(self): raise SystemExit('no')\nbad = Bad()")
        first.cell("def gone(): pass\ngone = 5\ndef early(): return 1\nearly = 'rebound'")
        report = self.release(first)
        skipped = {name for name, _why in report["skipped"]}
        self.assertGreaterEqual(skipped, {"lock", "big", "file", "gen", "f", "bad"})
        second = self.kernel()
        second.wait_for("restored")
        self.assertEqual(self.value(second, "fine, gone, early, Bad.__name__"), "(7, 5, 'rebound', 'Bad')")
        self.assertEqual(self.value(second, "[name for name in ('lock', 'big', 'bad') if name in globals()]"), "[]")

    def test_a_definition_that_needs_a_value_has_it(self) -> None:
        first = self.kernel()
        first.cell("limit = 12")
        first.cell("def within(n, bound=limit): return n < bound")
        self.release(first)
        second = self.kernel()
        self.assertEqual(second.wait_for("restored")["skipped"], [])
        self.assertEqual(self.value(second, "within(11), within(13)"), "(True, False)")

    def test_a_cell_that_comes_after_all_makes_the_state_void(self) -> None:
        first = self.kernel()
        first.cell("x = 1")
        first.tell(t="release")
        first.wait_for("released")
        self.assertEqual(self.value(first, "x + 1"), "2")
        self.assertFalse(os.path.exists(self.file))

    def test_a_busy_kernel_is_kept(self) -> None:
        first = self.kernel()
        cell = first.execute("import time; time.sleep(1)")
        first.tell(t="release")
        first.wait_for("kept", why="a cell runs")
        self.assertEqual(first.wait(cell)["status"], "ok")
        first.cell("job = run('sleep', '60')")
        first.tell(t="release")
        first.wait_for("kept", why="a job runs")

    def test_a_value_whose_saving_never_ends_is_passed_over_and_the_kernel_kept(self) -> None:
        first = self.kernel(settings={"save_seconds": 0.5})
        first.cell("class Slow:\n    def __reduce__(self):\n        while True: pass\ns = Slow()\ny = 3")
        first.tell(t="release")
        self.assertIn("longer than", first.wait_for("kept")["why"])
        self.assertEqual(self.value(first, "y"), "3")
        self.assertFalse(os.path.exists(self.file))

    def test_another_folder_or_a_broken_file_restores_nothing(self) -> None:
        first = self.kernel()
        first.cell("x = 1")
        self.release(first)
        with open(self.file, "r+b") as file:
            file.truncate(20)
        second = self.kernel()
        self.assertEqual(second.cell("'x' in globals()")["value"], "False")
        self.release(second)
        other = os.path.join(self.home.path, "other")
        os.mkdir(other)
        third = self.kernel(folder=other)
        self.assertEqual(self.value(third, "1 + 1"), "2")
        self.assertFalse([message for message in third.messages if message["t"] == "restored"])


if __name__ == "__main__":
    unittest.main()
