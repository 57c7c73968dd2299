"""What operators see and do: hosts show and restart, top, doctor."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import Daemon, HttpError, wait_until  # noqa: E402

SECONDS = 20


class OperatorsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = Daemon(start=False)
        self.daemon.__enter__()
        self.addCleanup(lambda: self.daemon.__exit__(None, None, None))

    def told(self, *words: str, code: int = 0):
        return json.loads(self.daemon.cli(*words, "--json", code=code).stdout)

    def test_restart_says_what_was_attached_again_and_output_goes_on(self) -> None:
        self.daemon.boot()
        session = self.daemon.session()
        self.daemon.cell(session, "x = 7")
        cell = self.daemon.start_cell(
            session, "import time\nfor i in range(60):\n    print(i, flush=True); time.sleep(0.05)")
        wait_until(lambda: self.daemon.get(f"/sessions/{session}/cells/{cell}")["status"] == "running", SECONDS, "it")
        before, = self.daemon.processes("albedo-hostagent")
        answer = self.told("hosts", "restart", "local")
        self.assertEqual((answer["kernels"], answer["reattached"], answer["cells_running"]), (1, 1, 1))
        self.assertLess(0, answer["ms"])
        after, = self.daemon.processes("albedo-hostagent")
        self.assertNotEqual(before, after)
        everything, = self.told("hosts", "restart", "--all")
        self.assertEqual((everything["host"], everything["reattached"]), ("local", 1))
        wait_until(lambda: self.daemon.get(f"/sessions/{session}/cells/{cell}")["status"] == "ok", SECONDS, "its end")
        output = self.daemon.request("GET", f"/sessions/{session}/cells/{cell}/output").decode()
        self.assertEqual(output.split(), [str(i) for i in range(60)])
        self.assertEqual(self.daemon.cell(session, "x")["value"], "7")
        part = self.daemon.request("GET", f"/sessions/{session}/cells/{cell}/output?offset=4&limit=7")
        self.assertEqual(part, "".join(f"{i}\n" for i in range(60)).encode()[4:11])
        self.assertIn("1 of 1 kernels attached again", self.daemon.cli("hosts", "restart", "local").stdout)

    def test_restart_needs_a_host(self) -> None:
        self.daemon.boot()
        self.assertIn("--all", self.daemon.cli("hosts", "restart", code=1).stderr)

    def test_show_tells_of_the_agent(self) -> None:
        self.daemon.boot()
        self.daemon.cell(self.daemon.session(), "1")
        os.kill(self.daemon.processes("albedo-hostagent")[0], signal.SIGKILL)
        wait_until(lambda: self.told("hosts", "show", "local")["kernels_attached"] == 1, SECONDS, "a reattach")
        shown = self.told("hosts", "show", "local")
        self.assertEqual((shown["state"], shown["kernels"], shown["agent"]["restarts"]), ("ready", 1, 1))
        self.assertIn("signal 9", shown["agent"]["last_death"])
        self.assertGreater(shown["agent"]["pss_kib"], 100)
        self.assertIn("calls_in_flight", shown)
        self.assertIn("p99_ms", shown)
        self.assertGreater(self.daemon.get("/hosts/local/agent?measure=true")["command_ms"], 0)
        text = self.daemon.cli("hosts", "show", "local").stdout
        self.assertIn("last death: signal 9", text)
        self.assertIn("kernels: 1, attached 1", text)

    def test_quarantine_holds_until_release(self) -> None:
        self.daemon.boot()
        session = self.daemon.session()
        self.daemon.cell(session, "x = 1")
        self.daemon.cli("hosts", "quarantine", "local")
        wait_until(lambda: not self.daemon.processes("albedo-hostagent"), SECONDS, "the agent's end")
        with self.assertRaises(HttpError):
            self.daemon.get("/fs/list?path=/", timeout=SECONDS)
        self.daemon.cli("hosts", "release", "local")
        self.assertEqual(self.daemon.cell(session, "x")["value"], "1")

    def test_top_once(self) -> None:
        self.daemon.boot()
        self.daemon.cell(self.daemon.session(), "1")
        look = self.told("top")
        self.assertEqual({row["process"] for row in look["processes"]}, {"supervisor", "api", "agent"})
        self.assertEqual(look["sessions"], 1)
        self.assertIn("PROCESS", self.daemon.cli("top").stdout)  # no terminal: one look

    def test_top_lives_in_a_terminal_and_leaves_it_as_it_was(self) -> None:
        self.daemon.boot()
        for last in (b"q", b"\x03"):
            ours, theirs = pty.openpty()
            termios.tcsetwinsize(theirs, (8, 40))
            before = termios.tcgetattr(theirs)
            child = subprocess.Popen([str(self.daemon.program), "top"], env=self.daemon.environment, stdin=theirs,
                                     stdout=theirs, stderr=theirs, start_new_session=True,
                                     preexec_fn=lambda: __import__("fcntl").ioctl(0, termios.TIOCSCTTY, 0))
            seen = b""
            deadline = time.monotonic() + SECONDS
            while seen.count(b"\x1b[H") < 2:
                self.assertLess(time.monotonic(), deadline, seen)
                if select.select([ours], [], [], 0.1)[0]:
                    seen += os.read(ours, 65536)
            os.write(ours, last)
            while child.poll() is None:
                self.assertLess(time.monotonic(), deadline, seen)
                if select.select([ours], [], [], 0.05)[0]:
                    seen += os.read(ours, 65536)
            while select.select([ours], [], [], 0)[0]:
                seen += os.read(ours, 65536)
            self.assertEqual(child.returncode, 0)
            self.assertTrue(seen.endswith(b"\x1b[?25h\x1b[?1049l"), seen[-80:])
            self.assertEqual(termios.tcgetattr(theirs), before)
            longest = max(len(line) for line in seen.decode().replace("\x1b[K", "").split("\r\n"))
            self.assertLessEqual(longest, 40 + len("\x1b[?1049h\x1b[?25l\x1b[J\x1b[H"))
            os.close(ours)
            os.close(theirs)

    def test_doctor_starts_nothing_and_names_what_to_do(self) -> None:
        ssh = self.daemon.user_home / ".ssh"
        ssh.mkdir(mode=0o700)
        (ssh / "config").write_text("Host box\n")
        (ssh / "config").chmod(0o666)
        told = self.told("doctor", code=1)
        self.assertFalse(told["ok"])
        finding, = [each for each in told["findings"] if each["what"] == "ssh config"]
        self.assertEqual((finding["level"], finding["next"]), ("fail", f"chmod go-w {ssh / 'config'}"))
        self.assertFalse((self.daemon.home / "daemon.json").exists())
        (ssh / "config").chmod(0o600)
        self.daemon.environment["SSH_AUTH_SOCK"] = "/nowhere/agent.sock"
        text = self.daemon.cli("doctor").stdout
        self.assertIn("warn  ssh agent: /nowhere/agent.sock", text)
        self.daemon.boot()
        self.assertIn(f"pid {self.daemon.pid}", self.daemon.cli("doctor").stdout)

    def test_doctor_asks_a_host_that_is_named(self) -> None:
        folder = self.daemon.root / "bin"
        folder.mkdir()
        (folder / "ssh").write_text("#!/bin/sh\necho 'ssh: connect to host far port 22: Connection refused' >&2\n"
                                    "case $1 in -V) exit 0;; esac\nexit 255\n")
        (folder / "ssh").chmod(0o755)
        self.daemon.environment["PATH"] = f"{folder}:{self.daemon.environment['PATH']}"
        told = self.told("doctor", "far", code=1)
        finding, = [each for each in told["findings"] if each["what"] == "host far"]
        self.assertIn("Connection refused", finding["words"])
        self.assertEqual(finding["next"], "albedo hosts why far")


if __name__ == "__main__":
    unittest.main()
