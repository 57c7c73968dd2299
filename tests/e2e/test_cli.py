"""The CLI against a real daemon: starting, exec, exit codes, Ctrl-C, JSON, installing elsewhere."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from harness import Daemon, alive, albedo_program, wait_until  # noqa: E402

COUNTING = "import time\nfor i in range(200):\n    print(i, flush=True)\n    time.sleep(0.05)"


def read_until(child: subprocess.Popen, text: bytes, seconds: float = 30) -> bytes:
    """The child's output up to and with `text`."""
    taken = b""
    os.set_blocking(child.stdout.fileno(), False)
    deadline = time.monotonic() + seconds
    while text not in taken:
        if time.monotonic() > deadline:
            raise AssertionError(f"no {text!r} in {seconds} s, only {taken[-2000:]!r}")
        piece = child.stdout.read()
        if piece == b"":
            raise AssertionError(f"ended before {text!r}: {taken[-2000:]!r} {child.stderr.read()!r}")
        taken += piece or b""
        time.sleep(0.005)
    os.set_blocking(child.stdout.fileno(), True)
    return taken


class Starting(unittest.TestCase):
    def test_two_commands_at_once_end_with_one_daemon(self) -> None:
        with Daemon(start=False) as daemon:
            both = [daemon.start_cli("sessions") for _ in range(4)]
            for one in both:
                self.assertEqual(one.wait(60), 0, one.stderr.read())
            daemon.read_record()
            wait_until(lambda: len(daemon.processes("albedo-supervisor")) == 1, 5, "one supervisor")
            self.assertEqual(daemon.processes("albedo-supervisor"), [daemon.pid])

    def test_albedo_alone_says_where_the_daemon_is_and_what_to_type(self) -> None:
        with Daemon(start=False) as daemon:
            first = daemon.cli().stdout
            daemon.read_record()
            self.assertIn(f"albedo started: pid {daemon.pid}, http://127.0.0.1:{daemon.port}", first)
            self.assertIn(str(daemon.home), first)
            self.assertIn("albedo exec", first)
            self.assertIn(f"albedo runs: pid {daemon.pid}", daemon.cli().stdout)
            self.assertEqual(json.loads(daemon.cli("--json").stdout)["started"], False)

    def test_a_killed_daemon_is_replaced_whatever_its_children_do(self) -> None:
        with Daemon() as daemon:
            for _ in range(3):
                before = daemon.pid
                daemon.kill()
                daemon.boot()
                self.assertNotEqual(daemon.pid, before)

    def test_a_home_that_cannot_be_made_is_named(self) -> None:
        with Daemon(start=False) as daemon:
            (daemon.root / "file").write_text("")
            daemon.environment["ALBEDO_HOME"] = str(daemon.root / "file" / "home")
            failed = daemon.cli("sessions", code=3)
            self.assertIn("file/home", failed.stderr)

    def test_a_port_that_is_taken_is_named(self) -> None:
        with Daemon(start=False) as daemon, socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            daemon.environment["ALBEDO_PORT"] = str(port)
            failed = daemon.cli("sessions", code=3)
            self.assertIn(str(port), failed.stderr)
            self.assertIn("daemon.log", failed.stderr)

    def test_a_newer_database_is_refused_and_left_alone(self) -> None:
        with Daemon() as daemon:
            daemon.stop()
            path = daemon.home / "albedo.db"
            with sqlite3.connect(path) as database:
                database.execute("PRAGMA user_version = 1000000")
            failed = daemon.cli("sessions", code=3)
            self.assertIn("albedo.db", failed.stderr)
            self.assertIn("newer", failed.stderr)
            with sqlite3.connect(path) as database:
                self.assertEqual(database.execute("PRAGMA user_version").fetchone(), (1000000,))

    def test_shutdown_ends_every_process_but_kernels(self) -> None:
        with Daemon() as daemon:
            daemon.cli("exec", "x = 1")
            self.assertIn("stopped", daemon.cli("shutdown").stdout)
            for name in ("albedo-supervisor", "albedo-api", "albedo-hostagent"):
                wait_until(lambda name=name: not daemon.processes(name), 5, f"the end of {name}")
            self.assertIn("no daemon runs", daemon.cli("shutdown").stdout)
            self.assertEqual(daemon.cli("exec", "x").stdout, "1\n")

    def test_an_installed_product_works_wherever_it_is_moved(self) -> None:
        build = albedo_program().parent.parent
        with Daemon(start=False) as daemon:
            prefix = daemon.root / "first prefix"
            subprocess.run(["cmake", "--install", str(build), "--prefix", str(prefix)],
                           check=True, capture_output=True, timeout=60)
            moved = daemon.root / "moved"
            shutil.move(prefix, moved)
            daemon.program = moved / "bin/albedo"
            self.assertEqual(daemon.cli("exec", "6*7").stdout, "42\n")
            self.assertTrue(daemon.processes(str(moved / "bin/albedo-supervisor")))


class Exec(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.daemon = Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__, None, None, None)

    def test_values_output_and_names(self) -> None:
        daemon = self.daemon
        self.assertEqual(daemon.cli("exec", "a = 20; a + 1").stdout, "21\n")
        self.assertEqual(daemon.cli("exec", ".", "print('hi'); a").stdout, "hi\n20\n")
        self.assertEqual(daemon.cli("exec", str(daemon.workspace), "a").stdout, "20\n")
        self.assertEqual(daemon.cli("exec", "-", stdin="b = a\nprint(b, end='')").stdout, "20")
        self.assertEqual(daemon.cli("exec", "print('no newline', end=''); 5").stdout, "no newline\n5\n")
        self.assertEqual(daemon.cli("exec", "None").stdout, "")
        self.assertEqual(daemon.cli("exec", "print('grün 漢字 🙂'); 'ß'").stdout, "grün 漢字 🙂\n'ß'\n")

    def test_a_new_session_is_another_kernel(self) -> None:
        daemon = self.daemon
        folder = daemon.root / "other"
        folder.mkdir()
        daemon.cli("exec", str(folder), "c = 1")
        made = json.loads(daemon.cli("new", str(folder), "--json").stdout)
        self.assertEqual(made["workspace"], str(folder))
        self.assertEqual(daemon.cli("exec", "--session", made["id"], "'c' in globals()").stdout, "False\n")
        self.assertIn(made["id"], daemon.cli("sessions").stdout)

    def test_a_raising_cell_is_a_traceback_and_exit_code_1(self) -> None:
        failed = self.daemon.cli("exec", "def f():\n    return 1/0\nprint('before')\nf()", code=1)
        self.assertEqual(failed.stdout, "before\n")
        self.assertIn("ZeroDivisionError: division by zero", failed.stderr)
        self.assertIn("return 1/0", failed.stderr)

    def test_usage_errors_are_exit_code_2(self) -> None:
        for words in (["exec"], ["nonsense"], ["exec", "a", "b", "c"], ["hosts", "show"],
                      ["exec", "--session", "x", ".", "1"], ["completion", "powershell"]):
            with self.subTest(words=words):
                self.assertNotEqual(self.daemon.cli(*words, code=2).stderr, "")

    def test_a_folder_that_is_not_there_is_named(self) -> None:
        failed = self.daemon.cli("exec", "/no/such/folder", "1", code=1)
        self.assertIn("/no/such/folder", failed.stderr)

    def test_json_is_one_object_with_the_result(self) -> None:
        result = json.loads(self.daemon.cli("exec", "--json", "print('x'); 1+1").stdout)
        self.assertEqual((result["status"], result["output"], result["value"]), ("ok", "x\n", "2"))
        failed = self.daemon.cli("exec", "--json", "raise KeyError('k')", code=1)
        self.assertEqual(json.loads(failed.stdout)["error"]["name"], "KeyError")
        refused = self.daemon.cli("--json", "exec", "/no/such/folder", "1", code=1)
        self.assertIn("/no/such/folder", json.loads(refused.stderr)["error"])

    def test_output_comes_while_the_cell_runs(self) -> None:
        child = self.daemon.start_cli("exec", "print('now', flush=True); import time; time.sleep(60)")
        read_until(child, b"now\n")
        self.assertIsNone(child.poll())
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(20), 130)

    def test_ctrl_c_interrupts_the_cell_and_keeps_the_names(self) -> None:
        child = self.daemon.start_cli("exec", "kept = 7\n" + COUNTING)
        read_until(child, b"3\n")
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(20), 130)
        self.assertIn(b"KeyboardInterrupt", child.stderr.read())
        self.assertEqual(self.daemon.cli("exec", "kept").stdout, "7\n")

    def test_a_second_ctrl_c_leaves_the_cell_running_and_says_how_to_return(self) -> None:
        stubborn = ("import time\nend = time.monotonic() + 6\nprint('start', flush=True)\n"
                    "while time.monotonic() < end:\n    try: time.sleep(0.1)\n"
                    "    except KeyboardInterrupt: pass\nprint('end')")
        child = self.daemon.start_cli("exec", stubborn)
        read_until(child, b"start\n")
        child.send_signal(signal.SIGINT)
        wait_until(lambda: b"interrupting" in child.stderr.peek(), 10, "word of the interrupt")
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(10), 130)
        words = child.stderr.read().decode()
        self.assertIn("albedo attach ", words)
        cell = words.split("albedo attach ")[1].split()[0]
        self.assertEqual(self.daemon.cli("attach", cell).stdout, "start\nend\n")

    def test_a_killed_watcher_leaves_the_cell_and_its_session_names_it(self) -> None:
        folder = self.daemon.root / "watched"
        folder.mkdir()
        child = self.daemon.start_cli("exec", str(folder), "import time; print('on', flush=True); time.sleep(2); 'done'")
        read_until(child, b"on\n")
        child.kill()
        child.wait(10)
        rows = json.loads(self.daemon.cli("sessions", "--json").stdout)
        session = next(row["id"] for row in rows if row["workspace"] == str(folder))
        self.assertEqual(self.daemon.cli("attach", session).stdout, "on\n'done'\n")
        self.assertIn("no cell runs", self.daemon.cli("attach", session, code=1).stderr)

    def test_interrupt_from_another_terminal(self) -> None:
        folder = self.daemon.root / "elsewhere"
        folder.mkdir()
        child = self.daemon.start_cli("exec", str(folder), COUNTING)
        read_until(child, b"2\n")
        rows = json.loads(self.daemon.cli("sessions", "--json").stdout)
        session = next(row["id"] for row in rows if row["workspace"] == str(folder))
        self.daemon.cli("interrupt", session)
        self.assertEqual(child.wait(20), 130)

    def test_a_timeout_interrupts_the_cell(self) -> None:
        ended = self.daemon.cli("exec", "--timeout", "0.5", "while True: pass", code=130)
        self.assertIn("TimeoutError: it ran longer than 500 ms", ended.stderr)

    def test_a_reader_that_leaves_ends_the_watching_alone(self) -> None:
        child = self.daemon.start_cli("exec", COUNTING.replace("200", "60"))
        read_until(child, b"1\n")
        child.stdout.close()
        self.assertEqual(child.wait(10), 1)
        child.stdout = None
        wait_until(lambda: self.daemon.cli("exec", "i").stdout == "59\n", 20, "the cell's end")

    def test_a_long_output_comes_whole(self) -> None:
        ended = self.daemon.cli("exec", "for i in range(300000): print(i)", timeout=60)
        self.assertEqual(ended.stdout, "".join(f"{i}\n" for i in range(300000)))


class Saying(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.daemon = Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__, None, None, None)

    def test_status_names_every_process(self) -> None:
        self.daemon.cli("exec", "1")
        status = json.loads(self.daemon.cli("status", "--json").stdout)
        self.assertEqual(status["pid"], self.daemon.pid)
        names = {(p["name"], p["host"]): p for p in status["processes"]}
        for key in (("supervisor", ""), ("api", ""), ("agent", "local")):
            self.assertIn(key, names)
            self.assertTrue(alive(names[key]["pid"]))
            self.assertGreater(names[key]["pss_kib"], 0)
        self.assertRegex(self.daemon.cli("status").stdout, r"agent +local +\d+ +up")

    def test_hosts_and_one_host(self) -> None:
        self.daemon.cli("exec", "1")
        ssh = self.daemon.user_home / ".ssh"
        ssh.mkdir(mode=0o700, exist_ok=True)
        (ssh / "config").write_text("Host listed-only\n  HostName 127.0.0.1\n  Port 9\n")
        rows = json.loads(self.daemon.cli("hosts", "--json").stdout)["hosts"]
        listed = next(row for row in rows if row["host"] == "listed-only")
        self.assertNotIn("state", listed)
        self.assertIn("not asked yet", self.daemon.cli("hosts").stdout)
        failed = self.daemon.cli("hosts", "warm", "listed-only", code=4).stdout
        self.assertIn("unreachable", failed)
        self.assertIn("next: ", failed)
        self.assertIn("unreachable", self.daemon.cli("hosts", "why", "listed-only").stdout)
        refused = self.daemon.cli("exec", "listed-only:~/x", "1", code=4)
        self.assertIn("listed-only", refused.stderr)
        self.assertIn("next: albedo hosts why listed-only", refused.stderr)

    def test_restarting_an_agent_keeps_kernel_and_running_cell(self) -> None:
        before = self.daemon.cli("exec", "import os; os.getpid()").stdout
        child = self.daemon.start_cli("exec", "import time\nfor i in range(40):\n    print(i, flush=True)\n    time.sleep(0.05)")
        read_until(child, b"5\n")
        os.set_blocking(child.stdout.fileno(), True)
        self.daemon.cli("hosts", "restart", "local")
        rest = child.stdout.read()
        self.assertTrue(rest.endswith(b"39\n"), rest)
        self.assertEqual(child.wait(20), 0)
        self.assertEqual(self.daemon.cli("exec", "os.getpid()").stdout, before)

    def test_logs_show_the_end_and_follow(self) -> None:
        self.assertEqual(len(self.daemon.cli("logs", "-n", "1").stdout.splitlines()), 1)
        last = (self.daemon.home / "daemon.log").read_bytes().splitlines()[-1]
        child = self.daemon.start_cli("logs", "-f", "-n", "1")
        read_until(child, last.split(b" ")[0])
        with open(self.daemon.home / "daemon.log", "a") as log:
            log.write("a line of \x1b[31mtest\n")
        self.assertIn(b"a line of \\x1b[31mtest\n", read_until(child, b"test\n"))
        child.kill()
        child.wait(10)

    def test_completion_scripts_are_read_by_their_shells(self) -> None:
        for shell in ("bash", "zsh", "fish"):
            with self.subTest(shell=shell):
                script = self.daemon.cli("completion", shell).stdout
                for word in ("exec", "attach", "quarantine", "login"):
                    self.assertIn(word, script)
                with tempfile.NamedTemporaryFile("w", suffix=shell, dir=self.daemon.root) as file:
                    file.write(script)
                    file.flush()
                    read = subprocess.run([shell, "-n", file.name], capture_output=True, text=True, timeout=20)
                self.assertEqual((read.returncode, read.stderr), (0, ""))

    def test_help_of_every_command(self) -> None:
        for words in ([], ["exec"], ["attach"], ["hosts"], ["hosts", "login"], ["logs"], ["completion"]):
            with self.subTest(words=words):
                self.assertIn("albedo", self.daemon.cli(*words, "--help").stdout)

    def test_a_terminal_sees_what_is_waited_for(self) -> None:
        """On a terminal a slow start is named; without one, nothing but the result is printed."""
        # A python that takes its time makes the kernel's start slow.
        slow = self.daemon.root / "slow-bin"
        slow.mkdir()
        real = shutil.which("python3", path="/usr/bin:/bin:" + os.environ["PATH"])
        (slow / "python3").write_text(f"#!/bin/sh\nsleep 3\nexec {real} \"$@\"\n")
        (slow / "python3").chmod(0o755)
        with Daemon(start=False) as daemon:
            daemon.environment["PATH"] = f"{slow}:{daemon.environment['PATH']}"
            master, terminal = pty.openpty()
            child = subprocess.Popen([str(daemon.program), "exec", "1+1"], env=daemon.environment,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=terminal,
                                     cwd=daemon.workspace)
            os.close(terminal)
            try:
                self.assertEqual(child.stdout.read(), b"2\n")
                self.assertEqual(child.wait(60), 0)
                fcntl.fcntl(master, fcntl.F_SETFL, os.O_NONBLOCK)
                shown = os.read(master, 65536).decode()
            finally:
                child.kill()
                child.wait()
                child.stdout.close()
                os.close(master)
            self.assertRegex(shown, r"local: \w+ \(\d s\)")
            self.assertTrue(shown.endswith("\r\x1b[K"), repr(shown))


if __name__ == "__main__":
    unittest.main()
