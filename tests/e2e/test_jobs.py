"""Jobs through the daemon: over HTTP and the CLI, in a remote kernel, and the turn that their end starts."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
import sshd  # noqa: E402
from harness import Daemon, HttpError, alive, wait_until  # noqa: E402
from turn_rig import TurnTest, cells  # noqa: E402


class Http(unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = Daemon()
        self.daemon.__enter__()
        self.addCleanup(self.daemon.__exit__, None, None, None)
        self.session = self.daemon.session()

    def cell(self, code: str) -> dict:
        return self.daemon.cell(self.session, code)

    def jobs(self) -> list[dict]:
        return self.daemon.get(f"/sessions/{self.session}/jobs")

    def test_jobs_are_listed_and_stopped(self) -> None:
        self.assertEqual(self.jobs(), [])
        self.cell("a = run('sh', '-c', 'echo words; exit 7'); await a; b = run('sleep', '600')")
        ended, runs = self.jobs()
        self.assertEqual((ended["id"], ended["state"], ended["exit_code"], ended["end"], ended["output_bytes"]),
                         (1, "ended", 7, "exit 7", 6))
        self.assertEqual((runs["id"], runs["state"], runs["exit_code"], runs["command"], runs["current"]),
                         (2, "running", None, "sleep 600", True))
        self.assertLess(abs(runs["started_at"] / 1000 - time.time()), 600)
        self.assertTrue(alive(runs["pid"]))
        self.assertEqual(json.loads(self.daemon.request("DELETE", f"/sessions/{self.session}/jobs/2")),
                         {"id": 2, "stopped": "gone"})
        self.assertFalse(alive(runs["pid"]))
        self.assertEqual([job["end"] for job in self.jobs()], ["exit 7", "signal 15 (Terminated)"])
        for path in (f"/sessions/{self.session}/jobs/9", f"/sessions/{self.session}/jobs/x",
                     f"/sessions/{'0' * 8}-0000-7000-8000-{'0' * 12}/jobs/1"):
            with self.assertRaises(HttpError) as caught:
                self.daemon.request("DELETE", path)
            self.assertEqual(caught.exception.status, 404)

    def test_a_session_without_a_kernel_has_none_and_gets_none_by_looking(self) -> None:
        self.assertEqual(self.jobs(), [])
        with self.assertRaises(HttpError) as caught:
            self.daemon.request("DELETE", f"/sessions/{self.session}/jobs/1")
        self.assertEqual(caught.exception.status, 404)
        self.assertNotIn("pid", {key for key, value in self.daemon.get(f"/sessions/{self.session}/status")["kernel"].items()
                                 if value})

    def test_the_command_line_lists_and_stops(self) -> None:
        self.cell("job = run('sleep', '600')\nbad = run('printf', '\\x1b[31m')\nawait bad")
        shown = self.daemon.cli("jobs")
        self.assertIn("sleep 600", shown.stdout)
        self.assertNotIn("\x1b", shown.stdout)
        listed = json.loads(self.daemon.cli("jobs", "--json", "--session", self.session).stdout)
        self.assertEqual([job["id"] for job in listed], [1, 2])
        self.assertEqual(listed[0]["session"], self.session)
        self.assertEqual(self.daemon.cli("jobs", "stop", "1").stdout, "job 1: gone\n")
        self.assertIn("no running job 1", self.daemon.cli("jobs", "stop", "1", code=1).stderr)

    def test_a_kept_job_is_found_by_the_sessions_next_kernel_and_ends_with_the_session(self) -> None:
        self.cell("job = run('sleep', '600', keep=True)")
        pid = self.jobs()[0]["pid"]
        kernel = self.daemon.get(f"/sessions/{self.session}/status")["kernel"]["pid"]
        os.kill(kernel, signal.SIGKILL)
        wait_until(lambda: self.cell("1")["status"] == "ok", 30, "the next kernel")
        row = self.jobs()[0]
        self.assertEqual((row["pid"], row["state"], row["kept"]), (pid, "running", True))
        self.assertTrue(alive(pid))
        self.daemon.request("DELETE", f"/sessions/{self.session}")
        wait_until(lambda: not alive(pid), 30, "the end of the job")


@unittest.skipUnless(sshd.available(), "needs root, sshd and ssh-keygen")
class Remote(unittest.TestCase):
    """Jobs of a kernel on a host that a real ssh reaches."""

    def setUp(self) -> None:
        self.daemon = self.enterContext(Daemon(start=False))
        self.server = self.enterContext(sshd.Sshd(self.daemon.root / "sshd"))
        self.daemon.environment["PATH"] = f"{self.server.bin}:{self.daemon.environment['PATH']}"
        self.daemon.environment["XDG_RUNTIME_DIR"] = str(self.server.runtime)
        self.daemon.boot()
        self.addCleanup(self.daemon.stop)
        self.folder = self.daemon.root / "far"
        self.folder.mkdir()
        self.session = self.daemon.session(f"box:{self.folder}")

    def value(self, code: str) -> str:
        result = self.daemon.cell(self.session, code)
        self.assertEqual(result["status"], "ok", result)
        return result["value"]

    def jobs(self) -> list[dict]:
        return self.daemon.get(f"/sessions/{self.session}/jobs")

    def cut(self) -> None:
        self.server.stop()
        for pid in self.server.masters():
            os.kill(pid, signal.SIGKILL)

    def attached(self) -> bool:
        return self.daemon.get(f"/sessions/{self.session}/status")["kernel"]["link"] == "attached"

    def test_both_streams_and_every_kind_of_end_are_told(self) -> None:
        shown = self.value("await run('sh', '-c', 'echo out; echo err >&2; exit 7')")
        self.assertIn("ended: exit 7", shown)
        self.assertTrue(shown.endswith("\nout\nerr"), shown)
        self.assertIn("signal 9", self.value("await run('sh', '-c', 'kill -9 $$')"))
        missing = self.daemon.cell(self.session, "run('no-such-program')")
        self.assertEqual((missing["status"], missing["error"]["name"]), ("error", "FileNotFoundError"))
        self.assertEqual(self.value("job = await run('head', '-c', '300000', '/dev/zero')\nlen(job.read())"), "300000")

    def test_a_job_that_ends_while_the_link_is_down_is_told_after_it(self) -> None:
        pid = int(self.value("job = run('sh', '-c', 'until test -e go; do sleep 0.05; done; echo late; exit 7')\njob.pid"))
        self.cut()
        wait_until(lambda: not self.attached(), 30, "the loss of the link")
        self.assertEqual([(row["state"], row["current"]) for row in self.jobs()], [("running", False)])
        with self.assertRaises(HttpError) as caught:
            self.daemon.request("DELETE", f"/sessions/{self.session}/jobs/1")
        self.assertEqual(caught.exception.status, 503)
        self.assertTrue(alive(pid))
        (self.folder / "go").touch()
        wait_until(lambda: not alive(pid), 30, "the end of the job")
        self.server.start()
        wait_until(self.attached, 60, "the link")
        row = self.jobs()[0]
        self.assertEqual((row["state"], row["exit_code"], row["end"], row["current"]), ("ended", 7, "exit 7", True))
        self.assertEqual(self.value("(await job).read()"), repr("late\n"))

    def test_a_kept_job_outlives_the_kernel_there_and_is_ended_on_its_host(self) -> None:
        pid = int(self.value("job = run('sleep', '600', keep=True)\njob.pid"))
        os.kill(self.daemon.get(f"/sessions/{self.session}/status")["kernel"]["pid"], signal.SIGKILL)
        wait_until(lambda: self.daemon.cell(self.session, "1")["status"] == "ok", 60, "the next kernel")
        self.assertEqual(self.value("run.job(1).pid"), str(pid))
        self.assertTrue(alive(pid))
        stopped = json.loads(self.daemon.request("DELETE", f"/sessions/{self.session}/jobs/1"))
        self.assertEqual(stopped["stopped"], "gone")
        self.assertFalse(alive(pid))


class Wakes(TurnTest):
    def wakes(self) -> list[str]:
        return [event["text"] for event in self.events() if event["type"] == "user" and event.get("source") == "wake"]

    def start(self, code: str) -> None:
        self.model.script([cells(code), {"text": "ok"}, {"text": "seen"}, {"text": "seen again"}])
        self.prompt()
        self.idle()

    def go(self) -> None:
        (self.daemon.workspace / "go").touch()

    JOB = "run('sh', '-c', 'until test -e go; do sleep 0.05; done; exit {}')"

    def test_the_end_of_a_job_starts_one_turn_that_names_it(self) -> None:
        self.start(f"job = {self.JOB.format(7)}")
        self.assertEqual(self.wakes(), [])
        self.go()
        wait_until(lambda: self.wakes(), 30, "the turn")
        self.idle()
        told = self.wakes()
        self.assertEqual(len(told), 1)
        self.assertIn("job 1 ended: exit 7, after", told[0])
        self.assertIn("until test -e go", told[0])
        self.assertIn("run.job(1)", told[0])
        self.assertIn("job 1 ended: exit 7", json.dumps(self.model.requests[-1]["body"]["input"]))
        self.daemon.kill()
        self.daemon.boot()
        wait_until(lambda: self.status()["kernel"]["link"] == "attached", 30, "the kernel")
        self.daemon.cell(self.session, "1")
        self.idle()
        self.assertEqual(len(self.wakes()), 1)

    def test_several_ends_share_one_turn_and_those_that_were_read_start_none(self) -> None:
        self.start(f"a, b, c = [{self.JOB.format(3)} for _ in range(3)]\nawait run('true')\nx = run('true'); x.wait()")
        self.go()
        wait_until(lambda: self.wakes(), 30, "the turn")
        self.idle()
        told = self.wakes()
        self.assertEqual(sum(text.count("ended: exit 3,") for text in told), 3, told)
        self.assertNotIn("exit 0", "".join(told))
        self.assertLess(len(told), 3)

    def test_what_a_turn_reads_itself_starts_none(self) -> None:
        self.model.script([cells(f"job = {self.JOB.format(4)}", "open('go', 'w').close(); await job"), {"text": "ok"}])
        self.prompt()
        self.idle()
        self.daemon.cell(self.session, "1")
        self.idle()
        self.assertIn("ended: exit 4", self.results()[1]["value"])
        self.assertEqual(self.wakes(), [])

    def test_jobs_of_a_cell_that_no_model_ran_are_only_events(self) -> None:
        self.daemon.cell(self.session, "job = run('true')")
        wait_until(lambda: self.daemon.get(f"/sessions/{self.session}/jobs")[0]["state"] == "ended", 30, "its end")
        self.daemon.cell(self.session, "1")
        self.idle()
        self.assertEqual((self.events(), self.model.requests), ([], []))

    def test_an_end_while_the_daemon_was_down_wakes_after_it(self) -> None:
        self.start(f"job = {self.JOB.format(9)}\njob.pid")
        pid = int(self.results()[0]["value"])
        self.daemon.kill()
        self.go()
        wait_until(lambda: not alive(pid), 30, "the end of the job")
        self.daemon.boot()
        wait_until(lambda: self.wakes(), 30, "the turn")
        self.idle()
        self.assertEqual(len(self.wakes()), 1)
        self.assertIn("exit 9", self.wakes()[0])

    def test_jobs_that_are_lost_with_their_kernel_are_told_as_lost(self) -> None:
        self.start("job = run('sleep', '600')")
        os.kill(self.status()["kernel"]["pid"], signal.SIGKILL)
        wait_until(lambda: self.wakes(), 30, "the turn")
        self.idle()
        self.assertIn("lost with its kernel", self.wakes()[0])

    def test_no_wake_is_lost_or_told_twice_when_the_api_dies_as_it_comes(self) -> None:
        for number in range(4):
            (self.daemon.workspace / "go").unlink(missing_ok=True)
            self.start(f"job = {self.JOB.format(number + 1)}")
            self.go()
            time.sleep(0.1 * number)
            os.kill(self.daemon.processes("albedo-api")[0], signal.SIGKILL)
            wait_until(lambda: f"ended: exit {number + 1}," in "".join(self.safe_wakes()), 60, "the turn")
            self.idle()
        self.assertEqual([sum(text.count(f"ended: exit {number + 1},") for text in self.wakes()) for number in range(4)], [1] * 4)

    def safe_wakes(self) -> list[str]:
        try:
            return self.wakes()
        except (OSError, http.client.HTTPException, HttpError):
            return []


class Backgrounded(TurnTest):
    environment = {"ALBEDO_CELL_BACKGROUND_SECONDS": "1"}

    def test_the_end_of_a_cell_that_went_to_the_background_wakes_once(self) -> None:
        code = ("import asyncio, os\nwhile not os.path.exists('go'): await asyncio.sleep(0.05)\n"
                "print('printed')\n6 * 7")
        self.model.script([cells(code), {"text": "ok"}, {"text": "seen"}])
        self.prompt()
        self.idle()
        self.assertEqual(self.results()[0]["status"], "backgrounded")
        (self.daemon.workspace / "go").touch()
        wait_until(lambda: any(event.get("source") == "wake" for event in self.events()), 30, "the turn")
        self.idle()
        told = [event["text"] for event in self.events() if event.get("source") == "wake"]
        self.assertEqual(len(told), 1)
        self.assertIn("value: 42", told[0])
        self.assertIn("printed", told[0])


if __name__ == "__main__":
    unittest.main()
