"""Cells through a real bridge, keeper and worker: what they give, and that nothing breaks the next one."""
from __future__ import annotations

import json
import time
import unittest

from kernel_rig import Home, Kernel

ENDS_WORKER = {
    "os._exit": ("import os; print('last words'); import sys; sys.stdout.flush(); os._exit(3)", "exit 3"),
    "abort": ("import os; print('last words', flush=True); os.abort()", "signal 6"),
    "segfault": ("import ctypes; print('last words', flush=True); ctypes.string_at(0)", "signal 11"),
    "kill": ("import os; print('last words', flush=True); os.kill(os.getpid(), 9)", "signal 9"),
    "term": ("import os; print('last words', flush=True); os.kill(os.getpid(), 15); __import__('time').sleep(9)",
             "signal 15"),
    "execv": ("import os; print('last words', flush=True); os.execv('/bin/true', ['true'])", "exit 0"),
    "closed": ("import os, time; print('last words', flush=True); os.closerange(3, 4096); time.sleep(9)",
               "closed its keeper's socket"),
    "closed at the end": ("import os; print('last words', flush=True); os.closerange(3, 4096)", ""),
}

NASTY = {
    "lone surrogate printed": r"print('\ud800')",
    "lone surrogate value": r"'\udfff'",
    "lone surrogate error": r"raise ValueError('\ud812')",
    "surrogate in a comment of the traceback": "raise ValueError(1)  # \\ud800",
    "lone surrogate key": r"{'\ud800': 1}",
    "hidden byte": r"import os; print(os.fsdecode(b'\xff'))",
    "bytes": r"import sys; sys.stdout.buffer.write(b'\xff\xfe\0\n')",
    "a line without end": "print('x' * 1_000_000, end='')",
    "nan": "float('nan')",
    "huge integer": "10 ** 6000",
    "huge integer in a list": "[10 ** 6000]",
    "huge string": "'x' * 100_000_000",
    "endless list": "a = []; a.append(a); a",
    "deep list": "a = []\nfor _ in range(100000): a = [a]\na",
    "broken repr": "class B:\n def __repr__(self): raise ValueError('no')\nB()",
    "repr that is no text": "class B:\n def __repr__(self): return 5\nB()",
    "repr that exits": "class B:\n def __repr__(self): raise SystemExit(3)\nB()",
    "broken str of an error": "class E(Exception):\n def __str__(self): raise ValueError('no')\nraise E",
    "recursion": "def f(): f()\nf()",
    "syntax": "def f(:",
    "null byte": "a = '\0'",
    "deep parentheses": "(" * 5000 + ")" * 5000,
    "exit": "exit()",
    "sys.exit": "import sys; sys.exit('text')",
    "exit in a thread": "import threading, sys; t = threading.Thread(target=sys.exit); t.start(); t.join()",
    "raise BaseException": "raise BaseException('x')",
    "raise KeyboardInterrupt": "raise KeyboardInterrupt",
    "raise GeneratorExit": "raise GeneratorExit",
    "exception group": "raise ExceptionGroup('g', [ValueError(1)] * 5)",
    "input": "input()",
    "stdin": "import sys; sys.stdin.read()",
    "tty": "open('/dev/tty')",
    "stdout closed": "import sys; sys.stdout.close()",
    "stderr closed": "import sys; sys.stderr.close()",
    "stdout replaced": "import sys, io; sys.stdout = io.StringIO(); print(1); sys.stdout = sys.__stdout__",
    "stdout gone": "import sys; sys.stdout = None",
    "stdin closed": "import sys; sys.stdin.close()",
    "builtins emptied": "__builtins__.clear()",
    "names deleted": "for name in list(globals()): del globals()[name]",
    "main replaced": "import sys, types; sys.modules['__main__'] = types.ModuleType('other')",
    "handler replaced": "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)",
    "handler gone": "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)",
    "folder removed": "import os, tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)",
    "folder": "import os; os.chdir('/')",
    "umask": "import os; os.umask(0o777)",
    "environment emptied": "import os; os.environ.clear()",
    "modules removed": "import sys\nfor name in list(sys.modules): name.startswith('albedo') and sys.modules.pop(name)",
    "path emptied": "import sys; sys.path.clear()",
    "recursion limit": "import sys; sys.setrecursionlimit(60)",
    "trace": "import sys; sys.settrace(lambda *a: None)",
    "warnings": "import warnings; warnings.simplefilter('error')",
    "loop closed": "import asyncio; asyncio.run(asyncio.sleep(0))",
    "own loop": "import asyncio; asyncio.new_event_loop().run_until_complete(asyncio.sleep(0))",
    "await": "import asyncio; await asyncio.sleep(0)",
    "await value": "import asyncio\nawait asyncio.sleep(0, 'v')",
    "await error": "import asyncio; await asyncio.sleep(0); 1/0",
    "await exit": "import asyncio, sys; await asyncio.sleep(0); sys.exit(3)",
    "task left": "import asyncio; t = asyncio.create_task(asyncio.sleep(100)); await asyncio.sleep(0)",
    "task fails": "import asyncio\nasync def f(): 1/0\nt = asyncio.create_task(f()); await asyncio.sleep(0.01)",
    "async for": "async def g():\n yield 1\nasync for x in g(): print(x)",
    "system": "import os; os.system('echo hi; echo ho >&2')",
    "subprocess": "import subprocess; subprocess.run(['cat'])",
    "fork returns": "import os; os.fork(); print('one')",
    "fork raises": "import os\nif os.fork() == 0: raise ValueError('child')",
    "fork exits": "import os, sys\nif os.fork() == 0: sys.exit(3)",
    "fork of a task": "import os, asyncio; await asyncio.sleep(0); os.fork(); await asyncio.sleep(0.01)",
    "fork in a thread": "import os, threading; t = threading.Thread(target=os.fork); t.start(); t.join()",
    "many forks": "import os\nfor _ in range(50):\n if os.fork() == 0: break",
    "pool": "import multiprocessing\ndef f(x): return x * x\nwith multiprocessing.get_context('fork').Pool(2) as p: print(p.map(f, range(4)))",
    "future": "from __future__ import annotations\ndef f(x: nonsense): pass",
    "name main": "assert __name__ == '__main__'",
}


class CellTests(unittest.TestCase):
    def setUp(self) -> None:
        self.home = Home()
        self.addCleanup(lambda: self.assertEqual(self.home.close(), []))
        self.bridge = self.home.bridge()
        self.kernel = Kernel(self.home).start(self.bridge)

    def fine(self, why: str) -> None:
        after = self.kernel.cell("1+1")
        self.assertEqual((after["status"], after["value"]), ("ok", "2"), f"{why}: {after}")

    def test_values_output_and_errors(self) -> None:
        kernel = self.kernel
        done = kernel.cell("x = 20\nprint('hello')\nx + 1")
        self.assertEqual((done["status"], done["value"], done["output"], done["error"]), ("ok", "21", "hello\n", None))
        self.assertEqual(kernel.cell("_ + 1")["value"], "22")
        done = kernel.cell("def f():\n    return 1 / 0\n\nf()")
        self.assertEqual((done["status"], done["error"]["name"]), ("error", "ZeroDivisionError"))
        self.assertIn("return 1 / 0", done["error"]["traceback"])
        self.assertNotIn("albedo_cells", done["error"]["traceback"])
        self.assertIsNone(kernel.cell("y = 5")["value"])
        self.assertIsNone(kernel.cell("")["value"])
        self.assertEqual(kernel.cell("import asyncio\nz = await asyncio.sleep(0, 7)\nz")["value"], "7")

    def test_a_cell_is_compiled_whole_before_anything_runs(self) -> None:
        done = self.kernel.cell("print('ran')\nreturn 5\n")
        self.assertEqual((done["error"]["name"], done["output"]), ("SyntaxError", ""))

    def test_output_of_python_c_and_children_comes_in_order(self) -> None:
        done = self.kernel.cell(
            "import os, sys, ctypes\nprint('one')\nos.system('echo two')\nprint('three', file=sys.stderr)\n"
            "print('four')\nos.write(1, b'five\\n')\nctypes.CDLL(None).puts(b'six')")
        self.assertEqual(done["output"].split(), ["one", "two", "three", "four", "five", "six"])

    def test_a_flood_stays_in_order_with_children(self) -> None:
        done = self.kernel.cell(
            "import os\nfor i in range(5000): print('p', i)\nos.system('echo child')\nprint('end')")
        log = bytes(self.kernel.output[done["cell"]]).decode()
        self.assertEqual(log.split("\n")[5000:5002], ["child", "end"])

    def test_output_is_seen_while_the_cell_runs(self) -> None:
        cell = self.kernel.execute("import time\nprint('early')\ntime.sleep(0.5)")
        while not self.kernel.output.get(cell):
            self.kernel.step()
        self.assertNotIn(cell, self.kernel.done)
        self.kernel.wait(cell)

    def test_nasty_cells_leave_a_kernel_that_works(self) -> None:
        for name, code in NASTY.items():
            with self.subTest(name):
                done = self.kernel.cell(code)
                json.dumps(done).encode()
                self.assertNotEqual((done.get("error") or {}).get("name"), "WorkerEnded", done)
                self.fine(name)
        self.assertNotIn("worker", [message["t"] for message in self.kernel.messages])

    def test_what_ends_the_worker_is_told_and_the_next_cell_has_a_new_one(self) -> None:
        for name, (code, cause) in ENDS_WORKER.items():
            with self.subTest(name):
                done = self.kernel.cell(code)
                self.assertEqual(done["output"].split("\n")[0], "last words", done)
                if cause:
                    self.assertEqual((done["status"], done["error"]["name"]), ("error", "WorkerEnded"), done)
                    self.assertIn(cause, done["error"]["message"])
                self.fine(name)
        ended = [message for message in self.kernel.messages if message["t"] == "worker"]
        self.assertEqual([message["state"] for message in ended], ["ended", "started"] * len(ENDS_WORKER))

    def test_a_forked_child_never_speaks_for_the_kernel(self) -> None:
        done = self.kernel.cell("import os\npid = os.fork()\nprint('twice', flush=True)\npid and os.waitpid(pid, 0)[1]")
        self.assertEqual((done["value"], done["output"]), ("0", "twice\ntwice\n"))
        self.assertEqual(self.kernel.done_count[done["cell"]], 1)

    def test_interrupts_reach_code_and_awaits(self) -> None:
        for name, code in {
            "sleep": "import time; time.sleep(600)",
            "loop": "while True: pass",
            "child": "import subprocess; subprocess.run(['sleep', '600'])",
            "await": "import asyncio; await asyncio.sleep(600)",
            "tasks that block": "import asyncio, time\nasync def f(): time.sleep(600)\n"
                                "await asyncio.gather(*[f() for _ in range(10)])",
            "asyncio.run": "import asyncio; asyncio.run(asyncio.sleep(600))",
            "run_until_complete": "import asyncio; asyncio.new_event_loop().run_until_complete(asyncio.sleep(600))",
            "catches its cancellation": "import asyncio\nasync def f():\n while True:\n  try: await asyncio.sleep(600)\n"
                                        "  except asyncio.CancelledError: pass\nawait asyncio.create_task(f())",
            "queue": "import queue; queue.Queue().get()",
            "lock": "import threading; l = threading.Lock(); l.acquire(); l.acquire()",
            "printing": "while True: print('x' * 100)",
        }.items():
            with self.subTest(name):
                cell = self.kernel.execute(code)
                self.kernel.wait_for("started", cell=cell)
                time.sleep(0.05)  # into the middle of what it does
                began = time.monotonic()
                self.kernel.tell(t="interrupt", cell=cell, force=False)
                done = self.kernel.wait(cell)
                self.assertEqual((done["status"], (done["error"] or {}).get("name")),
                                 ("interrupted", "KeyboardInterrupt"), done)
                self.assertLess(time.monotonic() - began, 1.9)
                self.fine(name)
                self.assertEqual(self.kernel.cell("import asyncio; await asyncio.sleep(0, 3)")["value"], "3")
        left = self.kernel.cell("await asyncio.sleep(0); len(asyncio.all_tasks())")
        self.assertEqual(left["value"], "1", "a task of an interrupted cell runs on")
        # C's system() keeps SIGINT from its caller: the child ends and the cell goes on.
        cell = self.kernel.execute("import os; os.system('sleep 600')")
        self.kernel.wait_for("started", cell=cell)
        self.kernel.tell(t="interrupt", cell=cell, force=False)
        self.kernel.wait(cell, 2)

    def test_an_interrupt_before_the_code_began_is_not_lost(self) -> None:
        for code in ("import time; time.sleep(600)", "import asyncio; await asyncio.sleep(600)"):
            kernel = Kernel(self.home).start(self.bridge)  # its worker is still importing
            cell = kernel.execute(code)
            kernel.tell(t="interrupt", cell=cell, force=False)
            done = kernel.wait(cell, 1.9)
            self.assertEqual(done["status"], "interrupted")
            self.assertEqual(kernel.cell("1+1")["value"], "2")

    def test_a_cell_that_ignores_interrupts_can_only_be_forced(self) -> None:
        cell = self.kernel.execute("import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('deaf')\ntime.sleep(600)")
        while not self.kernel.output.get(cell):
            self.kernel.step()
        self.kernel.tell(t="interrupt", cell=cell, force=False)
        for step in (1, 2, 3, 4):
            self.kernel.wait_for("interrupting", cell=cell, step=step)
        self.assertNotIn(cell, self.kernel.done)
        self.kernel.tell(t="interrupt", cell=cell, force=True)
        done = self.kernel.wait(cell)
        self.assertEqual((done["status"], done["error"]["name"]), ("interrupted", "WorkerEnded"))
        self.fine("force")

    def test_a_queued_cell_is_cancelled_and_an_ended_one_is_not_hit(self) -> None:
        first = self.kernel.execute("import time; time.sleep(0.3)")
        second = self.kernel.execute("ran = True")
        self.kernel.tell(t="interrupt", cell=second, force=False)
        self.assertEqual(self.kernel.wait(second)["status"], "interrupted")
        self.assertEqual(self.kernel.done[first]["status"], "ok")
        third = self.kernel.execute("import time; time.sleep(0.3); 'fine'")
        self.kernel.tell(t="interrupt", cell=first, force=False)
        self.assertEqual(self.kernel.wait(third)["value"], "'fine'")
        self.assertEqual(self.kernel.cell("'ran' in globals()")["value"], "False")

    def test_a_deadline_acts_from_outside(self) -> None:
        done = self.kernel.cell("while True: pass", timeout_ms=200)
        self.assertEqual((done["status"], done["error"]["name"]), ("interrupted", "TimeoutError"))
        self.assertIn("200 ms", done["error"]["message"])
        self.fine("deadline")

    def test_a_backgrounded_await_lets_others_run_and_keeps_its_output(self) -> None:
        kernel = self.kernel
        kernel.cell("import asyncio; await asyncio.sleep(0)")
        slow = kernel.execute("for i in range(6):\n    print('slow', i)\n    await asyncio.sleep(0.1)\n'slow end'",
                              background_ms=300)
        self.assertIn("slow 0", kernel.wait_for("backgrounded", cell=slow)["output"])
        beside = kernel.cell("print('beside')\nawait asyncio.sleep(0.02)\n'beside end'")
        self.assertEqual((beside["value"], beside["output"]), ("'beside end'", "beside\n"))
        self.assertNotIn(slow, kernel.done)
        done = kernel.wait(slow)
        self.assertEqual(done["value"], "'slow end'")
        self.assertEqual(done["output"], "".join(f"slow {i}\n" for i in range(6)))

    def test_a_backgrounded_await_is_interrupted_by_name(self) -> None:
        kernel = self.kernel
        kernel.cell("import asyncio; await asyncio.sleep(0)")
        slow = kernel.execute("print('slow'); await asyncio.sleep(600)", background_ms=50)
        kernel.wait_for("backgrounded", cell=slow)
        other = kernel.execute("await asyncio.sleep(0.5); 'other'")
        kernel.tell(t="interrupt", cell=slow, force=False)
        self.assertEqual(kernel.wait(slow)["status"], "interrupted")
        self.assertEqual(kernel.wait(other)["value"], "'other'")

    def test_late_output_goes_to_the_next_cell(self) -> None:
        kernel = self.kernel
        one = kernel.cell("import threading, time\ndef f():\n    for i in range(5):\n        time.sleep(0.05); print('late', i)\n"
                          "t = threading.Thread(target=f); t.start()")
        two = kernel.cell("time.sleep(0.1)")
        time.sleep(0.4)  # the thread prints while no cell runs
        three = kernel.cell("t.join()")
        text = one["output"] + two["output"] + three["output"]
        self.assertEqual(text, "".join(f"late {i}\n" for i in range(5)))

    def test_helpers_and_builtins(self) -> None:
        kernel = self.kernel
        self.assertEqual(kernel.cell("run = 5\ndel run\nrun")["value"][:8], "<run(pro")
        self.assertEqual(kernel.cell("import builtins; hasattr(builtins, 'memory')")["value"], "False")
        self.assertEqual(kernel.cell("import albedo_bundle; str(albedo_bundle.ROOT)")["value"], repr(self.home.bundle))
        self.assertIn("no standard input", kernel.cell("input()")["error"]["message"])

    def test_memory_calls_wait_for_their_answer(self) -> None:
        kernel = self.kernel
        cell = kernel.execute("memory.append('a note')")
        call = kernel.wait_for("call")
        self.assertEqual((call["call"], call["method"], call["args"]), (1, "memory.append", {"text": "a note"}))
        kernel.tell(t="answer", call=1, ok=True, value=None)
        self.assertEqual(kernel.wait(cell)["status"], "ok")
        cell = kernel.execute("memory.grep('x')")
        kernel.wait_for("call", call=2)
        kernel.tell(t="answer", call=2, ok=False, error="no such workspace")
        self.assertEqual(kernel.wait(cell)["error"]["message"], "no such workspace")
        cell = kernel.execute("memory.read()")
        kernel.wait_for("call", call=3)
        kernel.tell(t="interrupt", cell=cell, force=False)
        self.assertEqual(kernel.wait(cell)["status"], "interrupted")
        kernel.tell(t="answer", call=3, ok=True, value="too late")
        self.fine("an answer that nobody waits for")


if __name__ == "__main__":
    unittest.main()
