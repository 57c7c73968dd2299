"""Jobs of a kernel: what they give, how they end, and what outlives what. Real bridge, keeper and worker."""
from __future__ import annotations

import json
import os
import signal
import time
import unittest

from kernel_rig import Closed, Home, Kernel, frames

import albedo_kept_jobs
import albedo_run_dir


def gone_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while albedo_run_dir.process(pid) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class Jobs(unittest.TestCase):
    def setUp(self) -> None:
        self.home = Home()
        self.addCleanup(self._close)

    def _close(self) -> None:
        self.assertEqual(self.home.close(), [], "processes that would not go")

    def kernel(self) -> Kernel:
        return Kernel(self.home).start(self.home.bridge())

    def value(self, kernel: Kernel, code: str):
        done = kernel.cell(code)
        self.assertEqual(done["status"], "ok", done)
        return eval(done["value"])

    def error(self, kernel: Kernel, code: str) -> tuple:
        done = kernel.cell(code)
        self.assertEqual(done["status"], "error", done)
        return done["error"]["name"], done["error"]["message"]

    # --- how it ends is told ---

    def test_both_streams_and_how_it_ended_are_shown(self) -> None:
        kernel = self.kernel()
        shown = kernel.cell("await run('sh', '-c', 'echo out; echo err >&2; echo more; exit 7')")["value"]
        self.assertIn("ended: exit 7", shown)
        self.assertTrue(shown.endswith("\nout\nerr\nmore"), shown)
        shown = kernel.cell("await run('sh', '-c', 'echo last; kill -9 $$')")["value"]
        self.assertIn("signal 9 (Killed; perhaps out of memory)", shown)
        self.assertTrue(shown.endswith("\nlast"), shown)
        self.assertIn("ended: exit 0", kernel.cell("await run('true')")["value"])

    def test_what_cannot_start_is_an_error_with_its_reason(self) -> None:
        kernel = self.kernel()
        os.mkdir(os.path.join(self.home.folder, "a folder"))
        with open(os.path.join(self.home.folder, "plain"), "w") as file:
            file.write("no program")
        for code, name, words in (
                ("run('no-such-program')", "FileNotFoundError", "no-such-program"),
                ("run('true', cwd='/no/such/folder')", "FileNotFoundError", "/no/such/folder"),
                ("run('cat', stdin=__import__('pathlib').Path('absent'))", "FileNotFoundError", "absent"),
                ("run('cat', stdin=__import__('pathlib').Path('a folder'))", "IsADirectoryError", "a folder"),
                ("run('./plain')", "PermissionError", "plain"),
                ("run('true', timeout=86401)", "ValueError", "86400"),
                ("run('cat', stdin=3)", "TypeError", "stdin is"),
                ("run('no-such-program', keep=True)", "FileNotFoundError", "no-such-program")):
            with self.subTest(code=code):
                got = self.error(kernel, code)
                self.assertEqual(got[0], name)
                self.assertIn(words, got[1])
        self.assertEqual(self.value(kernel, "run.jobs()"), [])

    def test_input_is_at_its_end_at_once_and_there_is_no_terminal(self) -> None:
        kernel = self.kernel()
        self.assertEqual(self.value(kernel, "(await run('cat', timeout=20)).exit_code"), 0)
        self.assertEqual(self.value(
            kernel, "job = run('sh', '-c', 'read x; echo $?; (: </dev/tty) 2>/dev/null; test $? -ne 0 && echo none')\n"
            "(await job).read()"), "1\nnone\n")
        self.assertEqual(self.value(kernel, "(await run('stat', '-Lc', '%F', '/dev/stdin')).read()"),
                         "character special file\n")

    def test_jobs_are_nicer_than_cells(self) -> None:
        kernel = self.kernel()
        nice, job = self.value(kernel, "import os\njob = await run('sh', '-c', 'sleep 0.2; nice; exec nice')\n"
                               "(os.nice(0), job.read())")
        self.assertEqual(job, f"{nice + 10}\n" * 2)

    def test_input_from_text_bytes_and_files(self) -> None:
        kernel = self.kernel()
        self.assertEqual(self.value(kernel, "(await run('cat', stdin='é\\n')).read()"), "é\n")
        self.assertEqual(self.value(kernel, "(await run('wc', '-c', stdin=bytes(3_000_000))).read()"), "3000000\n")
        self.assertEqual(self.value(
            kernel, "import pathlib; pathlib.Path('in').write_text('file'); "
            "(await run('cat', stdin=pathlib.Path('in'))).read()"), "file")
        self.assertEqual(self.value(kernel, "(await run('true', stdin=bytes(3_000_000))).exit_code"), 0)
        self.assertIn("path", self.error(kernel, "run('cat', stdin=bytes(5_000_000))")[1])

    def test_a_timeout_ends_it_and_is_told(self) -> None:
        kernel = self.kernel()
        job = self.value(kernel, "job = await run('sh', '-c', 'trap \"\" TERM; sleep 600 & wait; wait', timeout=0.2)\n"
                         "(job.exit_code, job.timed_out, job.duration < 60, repr(job))")
        self.assertEqual(job[:3], (-9, True, True))
        self.assertIn("after its timeout", job[3])

    def test_a_wait_that_is_cut_short_leaves_the_job(self) -> None:
        kernel = self.kernel()
        self.assertEqual(self.error(kernel, "job = run('sleep', '600')\njob.wait(0.05)")[0], "TimeoutError")
        self.assertEqual(self.value(kernel, "(job.poll(), job.state, job.stop(), job.stop())"),
                         (None, "running", "gone", "gone"))

    # --- hostile ones ---

    def test_stop_ends_what_ignores_term_and_what_it_started(self) -> None:
        kernel = self.kernel()
        pids = self.value(kernel, "job = run('sh', '-c', 'trap \"\" TERM; sleep 600 & echo $!; while :; do wait; done')\n"
                          "while not job.tail().strip(): pass\n(job.pid, int(job.tail()), job.stop())")
        self.assertEqual(pids[2], "gone")
        self.assertTrue(gone_within(pids[0], 0.0) and gone_within(pids[1], 0.0))

    def test_what_a_double_fork_leaves_in_the_group_ends_and_holds_nothing_up(self) -> None:
        kernel = self.kernel()
        done = self.value(kernel, "job = run('sh', '-c', '(trap \"\" TERM; exec sleep 600) & echo $!; exit 5')\n"
                          "await job\n(job.exit_code, int(job.read()), job.duration < 30)")
        self.assertEqual((done[0], done[2]), (5, True))
        self.assertTrue(gone_within(done[1], 3))

    def test_a_process_that_left_the_group_and_holds_the_pipe_holds_nothing_up(self) -> None:
        kernel = self.kernel()
        done = self.value(kernel, "job = run('sh', '-c', 'setsid sleep 600 & echo $!; sleep 0.2; exit 5')\n"
                          "await job\n(job.exit_code, int(job.read()), job.duration < 30, job.stop())")
        self.assertEqual((done[0], *done[2:]), (5, True, "gone"))
        self.assertIsNotNone(albedo_run_dir.process(done[1]))  # as an ssh master that is to stay
        os.kill(done[1], signal.SIGKILL)

    def test_one_that_closes_its_streams_runs_on(self) -> None:
        kernel = self.kernel()
        self.assertEqual(self.value(
            kernel, "job = run('sh', '-c', 'echo a; exec >&- 2>&- <&-; sleep 0.3; exit 4')\n"
            "(await job).exit_code, job.read(), job.duration > 0.2"), (4, "a\n", True))

    def test_last_words_of_a_megabyte_arrive_before_the_end(self) -> None:
        kernel = self.kernel()
        code = "import os,sys; sys.stdout.write('x' * 1000000 + 'END'); sys.stdout.flush(); os._exit(3)"
        self.assertEqual(self.value(
            kernel, f"job = await run('python3', '-c', {code!r})\n"
            "(job.exit_code, job.output.size, job.tail(3), len(job.read()))"), (3, 1000003, "END", 1000003))

    def test_a_flood_is_bounded_and_what_is_lost_is_refused(self) -> None:
        kernel = self.kernel()
        done = self.value(kernel, "job = await run('head', '-c', '1000000000', '/dev/zero', timeout=120)\n"
                          "(job.exit_code, job.output.size, len(job.head()), len(job.tail()))")
        self.assertEqual(done, (0, 1000000000, 4096, 4096))
        self.assertIn("are gone", self.error(kernel, "job.read(500_000_000, 10)")[1])
        self.assertIn("use read", self.error(kernel, "job.read()")[1])
        self.assertEqual(self.value(
            kernel, "import pathlib; pathlib.Path('kept').write_text('before')\n"
            "try: job.save('kept')\nexcept Exception as error: pass\n"
            "(pathlib.Path('kept').read_text(), [p.name for p in pathlib.Path().iterdir()])"), ("before", ["kept"]))
        with open(f"/proc/{kernel.hello['pid']}/statm") as file:
            self.assertLess(int(file.read().split()[1]) * 4096, 100 * 1024 * 1024)

    def test_output_is_read_by_bytes_lines_and_saved_whole(self) -> None:
        kernel = self.kernel()
        self.assertEqual(self.value(
            kernel, "job = await run('sh', '-c', 'printf \"one\\\\ntwo é\\\\nthree\\\\n\"; printf \"\\\\377\"')\n"
            "(job.tail(lines=2), job.tail(7), job.head(3), job.read(4, 3), job.read(4), job.tail(0), str(job.output))"),
            ("three\n\ufffd", "three\n\ufffd", "one", "two", "two é\nthree\n\ufffd", "",
             "one\ntwo é\nthree\n\ufffd"))
        self.assertEqual(self.value(kernel, "path = job.save('saved'); open(path, 'rb').read()"),
                         "one\ntwo é\nthree\n".encode() + b"\xff")
        self.assertEqual(self.error(kernel, "job.save('/no/such/folder/x')")[0], "FileNotFoundError")
        self.assertEqual(self.error(kernel, "run('sleep', '600').read()"),
                         ("ValueError", "job 2 still runs: look at tail(), head() or read(offset, limit)"))

    # --- pipes ---

    def test_pipes_carry_bytes_exactly(self) -> None:
        kernel = self.kernel()
        make = "import random,sys; sys.stdout.buffer.write(random.Random(1).randbytes(5000000))"
        self.assertEqual(self.value(
            kernel, f"import random, hashlib\nwant = hashlib.sha256(random.Random(1).randbytes(5000000)).hexdigest()\n"
            f"direct = run('python3', '-c', {make!r}) | run('cat') | run('sha256sum')\n"
            f"chained = run('python3', '-c', {make!r}).pipe('cat').pipe('sha256sum')\n"
            f"first = run('python3', '-c', {make!r})\nlater = run('sha256sum', stdin=first)\n"
            "[(await job).read().split()[0] == want for job in (direct, chained, later)]"), [True] * 3)

    def test_standard_error_does_not_go_into_a_pipe(self) -> None:
        kernel = self.kernel()
        self.assertEqual(self.value(
            kernel, "job = run('sh', '-c', 'echo out; echo err >&2; echo out') | run('cat')\n(await job).read()"),
            "out\nout\n")
        self.assertEqual(self.value(
            kernel, "a = run('sh', '-c', 'echo out; echo err >&2', stderr='apart'); b = a.pipe('cat')\n"
            "(await a, (await b).read(), sorted(a.read().split()))[1:]"), ("out\n", ["err", "out"]))

    def test_a_reader_that_does_not_read_makes_the_writer_wait(self) -> None:
        kernel = self.kernel()
        self.value(kernel, "slow = run('yes') | run('sleep', '600')\nsource = run.jobs()[0]\n0")
        sizes = []
        deadline = time.monotonic() + 20
        while len(sizes) < 3 or len(set(sizes[-3:])) > 1:
            sizes.append(self.value(kernel, "import time; time.sleep(0.1); source.output.size"))
            self.assertLess(time.monotonic(), deadline, sizes)
        self.assertLess(sizes[-1], 16 * 1024 * 1024)
        self.assertEqual(self.value(kernel, "(source.poll(), slow.stop(), source.wait(20))"), (None, "gone", -13))

    def test_a_writer_whose_readers_have_gone_gets_sigpipe(self) -> None:
        kernel = self.kernel()
        self.assertEqual(self.value(
            kernel, "job = run('yes') | run('head', '-n', '2')\nsource = run.jobs()[0]\n"
            "((await job).read(), source.wait(20))"), ("y\ny\n", -13))

    def test_a_pipe_whose_first_bytes_are_gone_is_refused(self) -> None:
        kernel = self.kernel()
        self.value(kernel, "job = await run('head', '-c', '30000000', '/dev/zero')\n0")
        self.assertIn("are gone", self.error(kernel, "job.pipe('wc', '-c')")[1])
        self.assertIn("one expression", self.error(kernel, "other = run('cat')\nrun('true') | other")[1])

    # --- limits ---

    def test_64_run_and_64_are_kept(self) -> None:
        kernel = self.kernel()
        self.assertEqual(self.error(kernel, "live = [run('sleep', '600') for _ in range(65)]")[1], "64 jobs run already")
        self.assertEqual(self.value(kernel, "[job.stop() for job in run.jobs()] == ['gone'] * 64"), True)
        self.assertEqual(self.value(
            kernel, "for _ in range(3): await run('true')\n"
            "numbers = [job.id for job in run.jobs()]\n(len(numbers), numbers[0], numbers[-1])"), (64, 4, 67))
        self.assertEqual(self.error(kernel, "run.job(1)")[0], "LookupError")

    # --- who hears of its end ---

    def ends(self, kernel: Kernel) -> list:
        return [(message["job"], message.get("unread")) for message in kernel.messages
                if message["t"] == "job" and message["state"] in ("ended", "read")]

    def test_an_end_that_nobody_took_notice_of_is_unread_until_somebody_does(self) -> None:
        kernel = self.kernel()
        cell = kernel.execute("import asyncio\njob = run('true')\nawait asyncio.sleep(0)")
        kernel.wait(cell)
        ended = kernel.wait_for("job", state="ended")
        self.assertEqual((ended["unread"], ended["cell"], ended["end"]), (True, cell, "exit 0"))
        kernel.cell("job.exit_code")
        kernel.wait_for("job", state="read", job=1)
        kernel.cell("job.tail()")
        kernel.cell("await run('true')")
        kernel.cell("other = run('sleep', '600'); other.stop()")
        kernel.cell("service = run('true', service=True)")
        kernel.wait_for("job", state="ended", job=4)
        self.assertEqual(self.ends(kernel), [(1, True), (1, None), (2, False), (3, False), (4, False)])

    def test_an_await_that_was_interrupted_still_owes_the_end(self) -> None:
        kernel = self.kernel()
        cell = kernel.execute("job = run('cat', stdin=__import__('pathlib').Path('fifo')) if 0 else run('sleep', '0.5')\n"
                              "print('waits', flush=True)\nawait job")
        while not kernel.output.get(cell):
            kernel.step()
        kernel.tell(t="interrupt", cell=cell, force=False)
        self.assertEqual(kernel.wait(cell)["status"], "interrupted")
        self.assertTrue(kernel.wait_for("job", state="ended")["unread"])

    def test_an_end_while_the_link_is_down_is_told_after_it(self) -> None:
        kernel = self.kernel()
        kernel.cell("job = run('sh', '-c', 'sleep 0.3; echo done; exit 9')")
        pid = kernel.wait_for("job", state="running")["pid"]
        kernel.bridge.kill()
        self.assertTrue(gone_within(pid, 10))
        kernel.attach(self.home.bridge())
        ended = kernel.wait_for("job", state="ended")
        self.assertEqual((ended["exit_code"], ended["end"], ended["output"], ended["unread"]), (9, "exit 9", "done\n", True))

    def test_the_daemon_lists_and_stops(self) -> None:
        kernel = self.kernel()
        kernel.cell("job = run('sleep', '600')")
        answers = []
        for number, question in enumerate(({"op": "jobs"}, {"op": "stop_job", "job": 1}, {"op": "stop_job", "job": 7})):
            kernel.bridge.send(kernel.number, frames.QUERY, {"id": number, **question})
            while not kernel.pages:
                kernel.step()
            answers.append(json.loads(kernel.pages.pop()))
        row = answers[0]["jobs"][0]
        self.assertEqual((row["state"], row["command"], row["exit_code"]), ("running", "sleep 600", None))
        self.assertLess(abs(row["started_at"] / 1000 - time.time()), 600)
        self.assertEqual([answer.get("stopped") for answer in answers[1:]], ["gone", None])

    # --- what outlives what ---

    def test_a_job_and_its_handle_survive_the_worker(self) -> None:
        kernel = self.kernel()
        kernel.cell("run('sh', '-c', 'sleep 0.3; echo still')")
        kernel.cell("import os; os._exit(1)")
        self.assertEqual(self.value(kernel, "job = run.job(1)\n(await job).read()"), "still\n")

    def test_a_kept_job_is_found_by_the_next_kernel(self) -> None:
        kernel = self.kernel()
        pid = self.value(kernel, "job = run('sh', '-c', 'echo begun; until test -e go; do sleep 0.05; done; echo on >&2; "
                         "exit 6', keep=True)\nassert job.poll() is None\njob.pid")
        os.kill(kernel.hello["pid"], signal.SIGKILL)
        self.assertTrue(gone_within(kernel.hello["worker"]["pid"], 3))
        with self.assertRaises(Closed):
            kernel.attach(self.home.bridge())
        self.assertIsNotNone(albedo_run_dir.process(pid))
        again = self.kernel()
        self.assertEqual(self.value(again, "job = run.job(1)\n(job.pid, job.poll(), job.head())"), (pid, None, "begun\n"))
        self.assertEqual(self.value(again, "(run('true').id)"), 2)
        again.cell("open('go', 'w').close()")
        self.assertEqual(self.value(again, "await job\n(job.exit_code, job.read(), job.state)"), (6, "begun\non\n", "ended"))
        self.assertIn("exit 6", again.cell("job")["value"])

    def test_the_end_of_a_kept_job_while_no_kernel_was_there_is_told_once(self) -> None:
        kernel = self.kernel()
        pid = self.value(kernel, "run('sh', '-c', 'until test -e go; do sleep 0.05; done; exit 3', keep=True).pid")
        os.kill(kernel.hello["pid"], signal.SIGKILL)
        with self.assertRaises(Closed):
            kernel.wait_for("nothing")
        open(os.path.join(self.home.folder, "go"), "w").close()
        self.assertTrue(gone_within(pid, 10))
        again = self.kernel()
        ended = again.wait_for("job", state="ended")
        self.assertEqual((ended["job"], ended["exit_code"], ended["unread"], ended["kept"]), (1, 3, True, True))
        again.cell("run.job(1).poll()")
        again.wait_for("job", state="read")
        os.kill(again.hello["pid"], signal.SIGKILL)
        with self.assertRaises(Closed):
            again.wait_for("nothing")
        third = self.kernel()
        self.assertEqual(self.value(third, "import time; time.sleep(1); run.job(1).poll()"), 3)
        self.assertEqual(self.ends(third), [])

    def test_a_kept_job_whose_processes_were_all_ended_is_lost_and_no_success(self) -> None:
        kernel = self.kernel()
        pid = self.value(kernel, "job = run('sleep', '600', keep=True)\njob.pid")
        path = albedo_kept_jobs.folder_of(os.path.join(self.home.path, ".albedo-remote"), "s1")
        with open(os.path.join(path, "1", "job.json")) as file:
            runner = json.load(file)["keeper"]
        os.kill(runner, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        ended = kernel.wait_for("job", state="lost")
        self.assertEqual(ended["exit_code"], None)
        self.assertEqual(self.error(kernel, "await job")[0], "JobLost")
        self.assertEqual(self.value(kernel, "(job.state, job.exit_code)"), ("lost", None))

    def test_a_kept_job_is_stopped_and_ends_with_its_session(self) -> None:
        kernel = self.kernel()
        self.assertEqual(self.value(kernel, "job = run('sleep', '600', keep=True)\n(job.stop(), job.wait(20))"),
                         ("gone", -15))
        pid = self.value(kernel, "run('sh', '-c', 'trap \"\" TERM; while :; do sleep 1; done', keep=True).pid")
        self.home.ladder(kernel.run)
        self.assertTrue(gone_within(pid, 0.0))
        root = os.path.join(self.home.path, ".albedo-remote")
        self.assertFalse(os.path.exists(albedo_kept_jobs.folder_of(root, "s1")))

    def test_a_kept_job_stays_when_its_kernel_is_released_for_another(self) -> None:
        kernel = self.kernel()
        self.assertEqual(self.value(kernel, "(await run('echo', 'kept', keep=True)).exit_code"), 0)
        kernel.tell(t="release")
        kernel.wait_for("released")
        self.home.ladder(kernel.run)
        self.assertEqual(self.value(self.kernel(), "run.job(1).read()"), "kept\n")

    def test_neither_a_service_nor_a_kept_job_holds_a_kernel_that_nobody_attaches_to(self) -> None:
        kernel = Kernel(self.home).start(self.home.bridge(), {"grace": 0.5})
        service, kept = self.value(kernel, "run('sleep', '600', service=True).pid, run('sleep', '600', keep=True).pid")
        kernel.bridge.kill()
        self.assertTrue(gone_within(kernel.hello["pid"], 10))
        self.assertTrue(gone_within(service, 3))
        self.assertIsNotNone(albedo_run_dir.process(kept))
        self.assertEqual(self.value(self.kernel(), "[job.stop() for job in run.jobs()]"), ["gone"])

    def test_a_kept_flood_is_bounded(self) -> None:
        kernel = self.kernel()
        self.assertEqual(self.value(
            kernel, "job = await run('head', '-c', '60000000', '/dev/zero', keep=True, timeout=120)\n"
            "(job.exit_code, job.output.size, len(job.tail()))"), (0, 60000000, 4096))
        self.assertIn("are gone", self.error(kernel, "job.read(20_000_000, 10)")[1])


if __name__ == "__main__":
    unittest.main()
