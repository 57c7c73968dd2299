"""A kernel's life: connections that break, fights for it, its ends, its output; real processes throughout."""
from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import unittest
import uuid

from kernel_rig import Closed, Home, Kernel, frames

import albedo_run_dir  # kernel_rig has set the path


def gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while albedo_run_dir.process(pid) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def memory_kib(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))


class KernelTests(unittest.TestCase):
    def setUp(self) -> None:
        self.home = Home()
        self.addCleanup(lambda: self.assertEqual(self.home.close(), []))
        self.bridge = self.home.bridge()

    def kernel(self, **more) -> Kernel:
        return Kernel(self.home).start(self.bridge, **more)

    # --- connections ---

    def test_the_bridge_says_where_it_is(self) -> None:
        ready = self.bridge.ready
        self.assertEqual(ready["root"], os.path.join(self.home.path, ".albedo-remote"))
        self.assertEqual((ready["home"], ready["os"], ready["protocol"]), (self.home.path, "Linux", 1))
        self.assertEqual(self.bridge.call(op="ping")["ok"], True)
        self.assertEqual(self.bridge.call(op="stat", path=self.home.folder)["kind"], "folder")
        self.assertEqual(self.bridge.call(op="stat", path="/nonexistent/x")["kind"], "absent")
        self.assertEqual(self.bridge.call(op="nonsense")["ok"], False)

    def test_a_bridge_killed_in_mid_cell_costs_nothing(self) -> None:
        kernel = self.kernel()
        pid = kernel.cell("import os; os.getpid()")["value"]
        cell = kernel.execute("import time\nfor i in range(60):\n    print(i, flush=True); time.sleep(0.02)\nos.getpid()")
        while not kernel.output.get(cell):
            kernel.step()
        for _ in range(3):
            kernel.bridge.kill()
            kernel.attach(self.home.bridge(), credits=[
                {"cell": cell, "from": len(kernel.output[cell]), "until": 1 << 20}])
            if cell not in kernel.done:
                self.assertIn(cell, [row["cell"] for row in kernel.hello["cells"]])
            time.sleep(0.1)
        done = kernel.wait(cell)
        self.assertEqual((done["value"], kernel.done_count[cell]), (pid, 1))
        self.assertEqual(kernel.output[cell].decode(), "".join(f"{i}\n" for i in range(60)))

    def test_a_result_of_the_time_without_a_connection_is_kept(self) -> None:
        kernel = self.kernel()
        cell = kernel.execute("import time; time.sleep(0.2); print('woke'); 7")
        kernel.wait_for("started", cell=cell)
        self.bridge.kill()
        time.sleep(0.4)
        kernel.attach(self.home.bridge())
        self.assertEqual([row["status"] for row in kernel.hello["cells"]], ["ok"])
        done = kernel.wait(cell)
        self.assertEqual((done["value"], done["output"]), ("7", "woke\n"))

    def test_an_execute_sent_again_is_not_run_again(self) -> None:
        kernel = self.kernel()
        kernel.cell("count = 0")
        cell = kernel.execute("count += 1; count")
        self.assertEqual(kernel.wait(cell)["value"], "1")
        kernel.execute("count += 1; count", cell)  # a new number, the same cell
        while kernel.done_count[cell] < 2:
            kernel.step()
        self.assertEqual(kernel.done[cell]["value"], "1")
        self.assertEqual(kernel.cell("count")["value"], "1")

    def test_a_replayed_number_is_dropped_and_a_gap_cuts(self) -> None:
        kernel = self.kernel()
        kernel.cell("count = 0")
        message = {"t": "execute", "cell": str(uuid.uuid4()), "code": "count += 1"}
        kernel.tell(**message)
        kernel.wait(message["cell"])
        self.bridge.send(kernel.number, frames.CONTROL, {**message, "cell": str(uuid.uuid4())}, kernel.next_seq - 1)
        self.assertEqual(kernel.cell("count")["value"], "1")
        self.bridge.send(kernel.number, frames.CONTROL, message, kernel.next_seq + 5)
        with self.assertRaises(Closed) as caught:
            kernel.cell("never")
        self.assertEqual(caught.exception.reason, "dropped")
        kernel.outbox.clear()
        kernel.next_seq -= 1
        kernel.attach(self.bridge)
        self.assertEqual(kernel.cell("count")["value"], "1")

    def test_acknowledgements_leave_within_bounds(self) -> None:
        kernel = self.kernel()
        cell = kernel.execute("import time; time.sleep(0.5)")
        began = time.monotonic()
        while kernel.outbox:
            kernel.step()
        self.assertLess(time.monotonic() - began, 0.4)
        kernel.wait(cell)

    def test_a_wrong_token_is_refused_and_an_older_attempt_too(self) -> None:
        kernel = self.kernel()
        stranger = Kernel(self.home, kernel.run_id)
        with self.assertRaises(Closed) as caught:
            stranger.attach(self.bridge)
        self.assertEqual((caught.exception.kind, caught.exception.reason), (frames.REFUSED, "token"))
        late = Kernel(self.home, kernel.run_id)
        late.token, late.attempt = kernel.token, -5
        with self.assertRaises(Closed) as caught:
            late.attach(self.bridge)
        self.assertEqual(caught.exception.reason, "older attempt")
        self.assertEqual(kernel.cell("1+1")["value"], "2")

    def test_a_fight_is_won_once_by_the_newer(self) -> None:
        kernel = self.kernel()
        kernel.cell("x = 5")
        other = Kernel(self.home, kernel.run_id)
        other.token, other.owner, other.received = kernel.token, "owner-2", kernel.received
        other.attach(self.home.bridge())
        with self.assertRaises(Closed) as caught:
            kernel.cell("never sent")
        self.assertEqual((caught.exception.kind, caught.exception.message), (frames.SUPERSEDED, {"owner": "owner-2"}))
        self.assertEqual(other.cell("x")["value"], "5")

    def test_a_kernel_cannot_speak_for_another_or_for_the_bridge(self) -> None:
        one, two = self.kernel(), self.kernel()
        self.assertEqual((one.cell("x = 1; x")["value"], two.cell("x = 2; x")["value"]), ("1", "2"))
        self.assertNotEqual(one.number, two.number)

    def test_twenty_kernels_of_one_bridge(self) -> None:
        kernels = [self.kernel() for _ in range(20)]
        cells = [kernel.execute(f"import time; time.sleep(0.1); {index}") for index, kernel in enumerate(kernels)]
        for index, kernel in enumerate(kernels):
            self.assertEqual(kernel.wait(cells[index])["value"], str(index))

    def test_a_kernel_that_does_not_read_is_cut_and_the_others_live(self) -> None:
        one, two = self.kernel(), self.kernel()
        pid = one.hello["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        with self.assertRaises(Closed) as caught:
            for _ in range(40):
                one.tell(t="execute", cell=str(uuid.uuid4()), code="#" * 100_000, credit=0)
                self.assertEqual(two.cell("1+1")["value"], "2")
            one.step(5)
        self.assertEqual(caught.exception.reason, "overflow")

    # --- starts ---

    def test_a_start_repeated_opens_the_same_kernel(self) -> None:
        kernel = self.kernel()
        kernel.cell("x = 8")
        kernel.start(self.bridge)
        self.assertEqual(kernel.cell("x")["value"], "8")

    def test_a_folder_that_is_not_there(self) -> None:
        kernel = Kernel(self.home)
        with self.assertRaises(Closed) as caught:
            kernel.start(self.bridge, folder="/nonexistent/folder")
        self.assertEqual((caught.exception.kind, caught.exception.reason), (frames.CLOSED, "no_folder"))
        self.assertFalse(os.path.exists(self.home.run(kernel.run_id)))

    def test_bad_requests_do_no_harm(self) -> None:
        for request in ({}, {"run_id": "../x", "folder": "/", "token": "t", "attach": {}}, {"run_id": 5}):
            self.bridge.send(77, frames.START, request)
            self.assertEqual(json.loads(self.bridge.next(77)[3])["reason"], "failed")
        self.bridge.send(77, frames.OPEN, b"{{{")
        self.assertEqual(json.loads(self.bridge.next(77)[3])["reason"], "failed")
        self.assertEqual(self.kernel().cell("1+1")["value"], "2")

    def test_the_worker_is_a_plain_python(self) -> None:
        kernel = self.kernel()
        done = kernel.cell("import os, sys, signal\n(os.getcwd(), sys.path[0], os.environ.get('LC_CTYPE'), "
                           "signal.getsignal(signal.SIGINT) is signal.default_int_handler, 'DISPLAY' in os.environ, "
                           "sys.stdout.encoding, [p for p in sys.path if 'albedo' in p])")
        given = os.environ.get("LC_CTYPE")
        self.assertEqual(eval(done["value"]), (self.home.folder, "", given, True, False, "utf-8", []))
        plain = subprocess.run([self.bridge.ready["python"], "-c", "import sys; print(sys.path)"], env={
            **os.environ, "HOME": self.home.path}, capture_output=True, text=True, timeout=30, check=True).stdout
        self.assertEqual(eval(kernel.cell("sys.path")["value"]), eval(plain))

    def test_a_login_shell_that_prints_fails_or_hangs(self) -> None:
        shell = os.path.join(self.home.path, "shell")
        for script, variable, note in (
                ("#!/bin/sh\necho noise; [ \"$1\" = -l ] && shift\nexport FROM_LOGIN=yes\nexec /bin/sh \"$@\"\n", "'yes'", ""),
                ("#!/bin/sh\necho broken; exit 3\n", "'None'", "gave no environment")):
            with open(shell, "w", encoding="ascii") as file:
                file.write(script)
            os.chmod(shell, 0o755)
            kernel = Kernel(self.home).start(self.home.bridge({"SHELL": shell}), login=True)
            self.assertEqual(kernel.cell("import os; str(os.environ.get('FROM_LOGIN'))")["value"], variable)
            job = kernel.cell("j = run('sh', '-c', 'echo $FROM_LOGIN'); j.wait(); j.output.read()")
            self.assertEqual(job["value"], repr("yes\n" if variable == "'yes'" else "\n"))
            kernel.attach(kernel.bridge)
            self.assertIn(note, kernel.hello["note"])

    # --- ends ---

    def test_a_killed_worker_is_told_and_the_kernel_goes_on(self) -> None:
        kernel = self.kernel()
        cell = kernel.execute("import time; print('before', flush=True); time.sleep(600)")
        while not kernel.output.get(cell):
            kernel.step()
        os.kill(kernel.hello["worker"]["pid"], signal.SIGKILL)
        done = kernel.wait(cell)
        self.assertIn("signal 9 (killed; perhaps out of memory)", done["error"]["message"])
        self.assertEqual(done["output"], "before\n")
        self.assertEqual(kernel.cell("1+1")["value"], "2")

    def test_a_killed_keeper_takes_its_worker_along_and_is_proved_gone(self) -> None:
        kernel = self.kernel()
        cell = kernel.execute("job = run('sleep', '600')\nprint(job.pid, flush=True)\nwhile True: pass")
        while not kernel.output.get(cell):
            kernel.step()
        job = int(kernel.output[cell])
        os.kill(kernel.hello["pid"], signal.SIGKILL)
        self.assertTrue(gone_within(kernel.hello["worker"]["pid"], 2))
        with self.assertRaises(Closed) as caught:
            kernel.wait(cell)
        self.assertEqual(caught.exception.reason, "dropped")
        with self.assertRaises(Closed) as caught:
            kernel.attach(self.bridge)
        self.assertEqual(caught.exception.reason, "gone")
        self.assertTrue(gone_within(job, 0.1))  # ended before `gone` was answered
        self.assertFalse(os.path.exists(kernel.run))
        with self.assertRaises(Closed) as caught:
            kernel.attach(self.bridge)
        self.assertEqual(caught.exception.reason, "gone")

    def test_a_directory_of_another_machine_is_elsewhere(self) -> None:
        kernel = self.kernel()
        os.kill(kernel.hello["pid"], signal.SIGKILL)
        self.assertTrue(gone_within(kernel.hello["pid"], 2))
        facts = albedo_run_dir.read_kernel(kernel.run)
        albedo_run_dir.write_kernel(kernel.run, {**facts, "machine_id": "f" * 32, "hostname": "other-box"})
        with self.assertRaises(Closed) as caught:
            kernel.attach(self.bridge)
        self.assertEqual((caught.exception.reason, caught.exception.message["detail"]), ("elsewhere", "other-box"))
        self.assertEqual(self.home.ladder(kernel.run), {"error": "elsewhere", "detail": "other-box"})
        albedo_run_dir.write_kernel(kernel.run, {**facts, "boot_id": "another"})
        with self.assertRaises(Closed) as caught:
            kernel.attach(self.bridge)
        self.assertEqual(caught.exception.reason, "gone")

    def test_the_ladder_ends_everything(self) -> None:
        kernel = self.kernel()
        done = kernel.cell("job = run('sh', '-c', 'trap \"\" TERM; sleep 600 & while :; do sleep 1; done')\njob.pid")
        job, keeper, worker = int(done["value"]), kernel.hello["pid"], kernel.hello["worker"]["pid"]
        answer = self.home.ladder(kernel.run)
        self.assertEqual(answer["survived"], [])
        self.assertLessEqual({job, keeper, worker}, set(answer["gone"]))
        self.assertFalse(os.path.exists(kernel.run))
        self.assertEqual(self.home.ladder(kernel.run)["error"], "gone")

    def test_the_ladder_removes_a_socket_that_lies_elsewhere_and_no_other_folder(self) -> None:
        for folder, goes in ((f"/tmp/albedo-{os.getuid()}-{os.urandom(8).hex()}", True),
                             (os.path.join(self.home.path, "not-ours"), False)):
            kernel = self.kernel()
            os.mkdir(folder, 0o700)
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
            path = os.path.join(folder, "kernel.sock")
            with open(path, "w"):
                pass
            with open(os.path.join(kernel.run, "kernel.sock.path"), "w") as file:
                file.write(path)
            self.assertEqual(self.home.ladder(kernel.run)["survived"], [])
            self.assertEqual(os.path.exists(folder), not goes)

    def test_end_leaves_nothing(self) -> None:
        kernel = self.kernel()
        job = int(kernel.cell("run('sleep', '600').pid")["value"])
        kernel.tell(t="end")
        with self.assertRaises(Closed):
            kernel.step()
        for pid in (job, kernel.hello["pid"], kernel.hello["worker"]["pid"]):
            self.assertTrue(gone_within(pid, 1), pid)
        self.assertFalse(os.path.exists(kernel.run))

    def test_it_exits_when_its_directory_is_removed(self) -> None:
        kernel = self.kernel()
        albedo_run_dir.remove_tree(kernel.run)
        self.assertTrue(gone_within(kernel.hello["pid"], 1.2))

    def test_it_listens_again_when_its_socket_was_removed(self) -> None:
        kernel = self.kernel()
        kernel.cell("x = 4")
        self.bridge.kill()
        os.unlink(os.path.join(kernel.run, "kernel.sock"))
        bridge, deadline = self.home.bridge(), time.monotonic() + 3
        while True:
            try:
                kernel.attach(bridge)
                break
            except Closed as closed:
                self.assertEqual(closed.reason, "dropped")
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
        self.assertEqual(kernel.cell("x")["value"], "4")

    def test_grace_runs_only_while_nothing_does(self) -> None:
        idle, silent, job = (Kernel(self.home).start(self.bridge, {"grace": 0.5}) for _ in range(3))
        silent.execute("import time; time.sleep(3)")
        job.cell("run('sleep', '3')")
        silent.wait_for("started")
        self.bridge.kill()
        self.assertTrue(gone_within(idle.hello["pid"], 4))
        for kernel in (silent, job):
            self.assertIsNotNone(albedo_run_dir.process(kernel.hello["pid"]))
        self.assertTrue(gone_within(silent.hello["pid"], 8))
        self.assertTrue(gone_within(job.hello["pid"], 8))

    # --- output ---

    def read_all(self, kernel: Kernel, cell: str) -> dict:
        """As a fast reader does: always more credit."""
        while cell not in kernel.done or len(kernel.output[cell]) < kernel.done[cell]["output_bytes"]:
            kernel.step()
        return kernel.done[cell]

    def test_a_flood_with_a_reader_arrives_whole_and_memory_is_bounded(self) -> None:
        kernel = self.kernel()
        cell = kernel.execute("for i in range(1000000): print('%099d' % i)")
        kernel.bridge.send(kernel.number, frames.CREDIT, {"cell": cell, "from": 0, "until": 1 << 30})
        done = self.read_all(kernel, cell)
        self.assertEqual(done["output_bytes"], 100_000_000)
        output = kernel.output[cell]
        for line in (0, 1, 500_000, 999_999):
            self.assertEqual(output[line * 100:line * 100 + 100], b"%099d\n" % line)
        for pid in (kernel.hello["pid"], kernel.bridge.process.pid):
            self.assertLess(memory_kib(pid), 64 * 1024)

    def test_a_flood_without_a_reader_is_not_held_and_its_gap_is_told(self) -> None:
        kernel = self.kernel(settings={"ring_bytes": 1 << 20})
        done = kernel.cell("for i in range(100000): print('%099d' % i)")
        self.assertEqual((done["status"], done["output_bytes"], done["truncated"]), ("ok", 10_000_000, True))
        self.assertEqual(len(kernel.output[done["cell"]]), 65536)
        self.assertTrue(done["output"].startswith("0" * 99 + "\n"))
        page = lambda offset: self.page(kernel, done["cell"], offset, 1000)  # noqa: E731
        self.assertEqual(page(0), (0, b"%099d\n" % 0 + b"".join(b"%099d\n" % i for i in range(1, 10))))
        flags, words = page(2_000_000)
        self.assertEqual((flags, b"are gone" in words), (2, True))
        self.assertEqual(page(10_000_000 - 1000), (1, b"".join(b"%099d\n" % i for i in range(99_990, 100_000))))
        self.assertEqual(self.page(kernel, str(uuid.uuid4()), 0, 10), (4, b""))

    def page(self, kernel: Kernel, cell: str, offset: int, limit: int) -> tuple[int, bytes]:
        kernel.bridge.send(kernel.number, frames.PAGE, {"id": 9, "cell": cell, "offset": offset, "limit": limit})
        while not kernel.pages:
            kernel.step()
        answer = kernel.pages.pop()
        self.assertEqual(answer[:8] + answer[24:32], (9).to_bytes(8, "big") + offset.to_bytes(8, "big"))
        self.assertEqual(str(uuid.UUID(bytes=answer[8:24])), cell)
        return answer[32], answer[33:]

    def test_a_slow_reader_holds_the_cell_and_one_that_stalls_does_not(self) -> None:
        kernel = self.kernel(settings={"ring_bytes": 32 << 20})
        cell = kernel.execute("line = 'x' * 999_999\nfor i in range(30): print(line)")
        kernel.bridge.send(kernel.number, frames.CREDIT, {"cell": cell, "from": 0, "until": 1 << 20})
        began = time.monotonic()
        while len(kernel.output.get(cell, b"")) < 1 << 20:
            kernel.step()
        # It has read 1 MiB and asks for no more: the cell waits 8 MiB ahead, for 5 s and no longer.
        self.bridge.send(kernel.number, frames.QUERY, {"id": 1, "op": "stats"})
        while not kernel.pages:
            kernel.step()
        self.assertEqual(json.loads(kernel.pages.pop())["running"], [cell])
        done = kernel.wait(cell)
        self.assertGreater(time.monotonic() - began, 2)
        self.assertEqual(done["output_bytes"], 30_000_000)

    def test_offsets_are_bytes_through_utf8(self) -> None:
        kernel = self.kernel()
        done = kernel.cell("print('é€😀' * 10)")
        raw = ("é€😀" * 10 + "\n").encode()
        self.assertEqual((done["output_bytes"], bytes(kernel.output[done["cell"]])), (len(raw), raw))
        self.assertEqual(self.page(kernel, done["cell"], 3, 4), (0, raw[3:7]))

    def test_only_the_newest_logs_are_kept(self) -> None:
        kernel = self.kernel()
        first = kernel.cell("print('x' * 100000)")["cell"]
        for _ in range(16):
            kernel.cell("print('x' * 100000)")
        self.assertEqual(self.page(kernel, first, 0, 10)[0], 4)
        self.assertEqual(len(os.listdir(os.path.join(kernel.run, "output"))), 16)

    def test_output_through_an_odd_locale(self) -> None:
        for env in ({"LC_ALL": "POSIX"}, {"LC_ALL": "xx_YY.bogus"}, {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}):
            kernel = Kernel(self.home).start(self.home.bridge(env))
            done = kernel.cell("import os, subprocess\nopen('é', 'w').close()\nprint('é😀', os.listdir(), flush=True)\n"
                               "[os.environ.get('LC_ALL')]")
            self.assertIn("é😀 ['é']", done["output"])
            self.assertEqual(done["value"], repr([env.get("LC_ALL", os.environ.get("LC_ALL"))]))

    # --- jobs ---

    def test_jobs(self) -> None:
        kernel = self.kernel()
        done = kernel.cell("job = run('sh', '-c', 'echo out; echo err >&2; cat; exit 3', stdin='in')\n"
                           "ended = await job\n(ended.exit_code, job.output.read(), job.output.tail(3), job.exit_code)")
        self.assertEqual(eval(done["value"]), (3, "out\nerr\nin", "\nin", 3))
        self.assertIn("No such file", kernel.cell("run('/nonexistent/program')")["error"]["message"])
        self.assertEqual(kernel.cell("[run('sleep', '600').exit_code]")["value"], "[None]")
        self.assertEqual(kernel.cell("job = run('sleep', '600'); (job.stop(), job.exit_code)")["value"],
                         "('gone', -15)")
        self.assertEqual(kernel.cell("job = run('sleep', '600', timeout=0.1); (job.wait(), job.timed_out)")["value"],
                         "(-15, True)")
        self.assertEqual(kernel.wait_for("job", state="ended", exit_code=3)["command"][:5], "sh -c")
        kernel.bridge.send(kernel.number, frames.QUERY, {"id": 1, "op": "jobs"})
        while not kernel.pages:
            kernel.step()
        rows = json.loads(kernel.pages.pop())["jobs"]
        self.assertEqual([row["exit_code"] for row in rows], [3, None, -15, -15])

    def test_a_job_survives_its_worker(self) -> None:
        kernel = self.kernel()
        job = int(kernel.cell("run('sleep', '600').pid")["value"])
        kernel.cell("import os; os._exit(1)")
        self.assertIsNotNone(albedo_run_dir.process(job))
        recorded = albedo_run_dir.read_processes(kernel.run)
        self.assertIn(job, [entry["pid"] for entry in recorded])

    def test_what_a_job_leaves_in_its_group_ends_with_it(self) -> None:
        kernel = self.kernel()
        done = kernel.cell("job = run('sh', '-c', 'sleep 600 & echo $!')\njob.wait()\njob.output.read()")
        left = int(eval(done["value"]))
        self.assertTrue(gone_within(left, 2))


if __name__ == "__main__":
    unittest.main()
