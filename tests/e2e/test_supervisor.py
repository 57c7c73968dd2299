"""The real albedo-supervisor over stand-in children, every delay scaled to a tenth.

The stand-ins (tests/support/stand_in_child.cpp) are small working children that follow a script and
take orders over the listener. $ALBEDO_BIN is an executable of the build under test; its default is
build/bin/albedo.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import select
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("ALBEDO_BIN") or ROOT / "build/bin/albedo").absolute().parent.parent
SCALE = 0.1
RESTART, STOP, QUARANTINE, RELEASE, KILL = range(5)


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> object:
    """The first true value of `condition`; AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.005)


def running(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Place:
    """A folder with the programs and a home; finds every process that runs from it."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="albedo-supervisor-"))
        self.bin = self.root / "bin"
        self.bin.mkdir()
        self.home = self.root / "home"
        self.home.mkdir(0o700)
        shutil.copy(BUILD / "bin/albedo-supervisor", self.bin)
        for name in ("albedo-api", "albedo-hostagent"):
            shutil.copy(BUILD / "tests/albedo-stand-in", self.bin / name)
        self.started: list[subprocess.Popen[bytes]] = []

    def script(self, who: str, *words: str) -> None:
        (self.home / f"script.{who}").write_text("\n".join(words))

    def pids(self, program: str = "") -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                path = os.readlink(entry / "exe")
                if path.startswith(f"{self.bin}/") and path.endswith(program):
                    found.append(int(entry.name))
        return [pid for pid in found if running(pid)]

    def start(self, *more: str, scale: float = SCALE, env: dict[str, str] | None = None) -> Daemon:
        reading, writing = os.pipe()
        command = [str(self.bin / "albedo-supervisor"), "--home", str(self.home)]
        command += ["--time-scale", str(scale), "--ready-fd", str(writing), *more]
        process = subprocess.Popen(
            command,
            pass_fds=[writing],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
        os.close(writing)
        self.started.append(process)
        return Daemon(self, process, reading)

    def leave(self) -> list[int]:
        """Ends what is left; the pids of children that should not have been there."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()
        with contextlib.suppress(AssertionError):
            wait_for(lambda: not self.pids(), 2, "children die with their supervisor")
        left = self.pids()
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.root)
        return left


class Daemon:
    """One supervisor that was started, and the way to steer its stand-in api."""

    def __init__(self, place: Place, process: subprocess.Popen[bytes], ready: int) -> None:
        self.place = place
        self.process = process
        self.ready = ready
        self.pid = process.pid

    def said(self, seconds: float = 10) -> str:
        """Everything it says on the ready descriptor, to its end."""
        text = b""
        deadline = time.monotonic() + seconds
        while select.select([self.ready], [], [], max(0.0, deadline - time.monotonic()))[0]:
            piece = os.read(self.ready, 65536)
            if not piece:
                os.close(self.ready)
                return text.decode()
            text += piece
        raise AssertionError(f"nothing said within {seconds} s")

    def record(self) -> dict[str, object]:
        return json.loads((self.place.home / "daemon.json").read_text())

    def order(self, line: str, port: int | None = None) -> object:
        """One order to the stand-in api; tried again while it is being restarted."""

        def attempt() -> list[object]:
            address = ("127.0.0.1", port or int(str(self.record()["port"])))
            with contextlib.suppress(OSError), socket.create_connection(address, 5) as client:
                client.sendall(line.encode() + b"\n")
                answer = client.makefile().readline()
                if answer:
                    return [json.loads(answer)]
            return []

        return wait_for(attempt, 5, line)[0]

    def child(self, host: str) -> dict:
        """What Processes says of the agent of `host`; of the api with an empty host."""
        for each in self.order("processes"):
            if each["host"] == host and each["name"] != "supervisor":
                return each
        return {"state": "absent", "pid": 0, "restarts": 0, "generation": 0, "last_death": ""}

    def agent_up(self, host: str, not_pid: int = 0, seconds: float = 5) -> dict:
        def look() -> dict | None:
            child = self.child(host)
            return child if child["state"] == "up" and child["pid"] != not_pid else None

        return wait_for(look, seconds, f"{host} up")

    def start_agent(self, host: str) -> dict:
        self.order(f"want {host}")
        child = self.agent_up(host)
        wait_for(lambda: self.offers(host), 5, "a channel")
        return child

    def offers(self, host: str) -> list[int]:
        return [e[2] for e in self.order("events") if e[0] == "offer" and e[1] == host]

    def downs(self, host: str) -> list[list]:
        return [e for e in self.order("events") if e[0] == "down" and e[1] == host]

    def log(self) -> str:
        return (self.place.home / "daemon.log").read_text()


class SupervisorTest(unittest.TestCase):
    def setUp(self) -> None:
        self.place = Place()
        self.addCleanup(lambda: self.assertEqual(self.place.leave(), []))

    def daemon(self, **options: object) -> Daemon:
        daemon = self.place.start(**options)
        self.assertEqual(daemon.said(), "ready\n")
        return daemon

    @contextlib.contextmanager
    def takes(self, least: float, most: float) -> Iterator[None]:
        began = time.monotonic()
        yield
        took = time.monotonic() - began
        self.assertTrue(least <= took <= most, f"took {took:.3f} s")


class Start(SupervisorTest):
    def test_ready_means_usable(self) -> None:
        daemon = self.daemon()
        record = daemon.record()
        self.assertEqual(record["pid"], daemon.pid)
        self.assertEqual(len(str(record["token"])), 64)
        welcome = daemon.order("welcome")
        self.assertEqual(welcome["token"], record["token"])
        self.assertEqual(welcome["port"], record["port"])
        self.assertEqual(stat.S_IMODE((self.place.home / "daemon.json").stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(self.place.home.stat().st_mode), 0o700)

    def test_two_at_once_end_with_one(self) -> None:
        daemons = [self.place.start() for _ in range(4)]
        wait_for(lambda: sum(d.process.poll() is None for d in daemons) == 1, 5, "one is left")
        self.assertEqual([d.process.poll() for d in daemons if d.process.poll() is not None], [0] * 3)
        left = next(d for d in daemons if d.process.poll() is None)
        self.assertEqual(left.said(), "ready\n")
        for daemon in daemons:
            if daemon is not left:
                self.assertIn(daemon.said(), ("ready\n", ""))
        self.assertEqual(left.record()["pid"], left.pid)
        self.assertEqual(len(self.place.pids("albedo-api")), 1)

    def test_an_api_that_crashes_is_given_up_with_its_last_words(self) -> None:
        self.place.script("api", "shout", "crash")
        daemon = self.place.start()
        said = daemon.said()
        self.assertTrue(said.startswith("error: "), said)
        for words in ("exit 3", "the disk is upside down", "daemon.log"):
            self.assertIn(words, said)
        self.assertEqual(daemon.process.wait(5), 1)
        self.assertFalse((self.place.home / "daemon.json").exists())

    def test_an_api_that_never_answers_is_given_up(self) -> None:
        self.place.script("api", "mute")
        daemon = self.place.start()
        with self.takes(1.9, 6):  # 20 s in full
            self.assertIn("never became ready", daemon.said())
        self.assertEqual(daemon.process.wait(5), 1)

    def test_a_taken_port_is_named(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            daemon = self.place.start(env={"ALBEDO_PORT": str(port)})
            self.assertIn(f"port {port}", daemon.said())
        self.assertEqual(daemon.process.wait(5), 1)

    def test_a_home_that_is_a_file_is_named(self) -> None:
        self.place.home.rmdir()
        self.place.home.write_text("")
        daemon = self.place.start()
        self.assertIn(str(self.place.home), daemon.said())
        self.assertEqual(daemon.process.wait(5), 1)

    def test_a_full_log_disk_blocks_nothing(self) -> None:
        (self.place.home / "daemon.log").mkdir()
        daemon = self.daemon()
        daemon.start_agent("one")
        shutil.rmtree(self.place.home / "daemon.log")
        os.mkfifo(self.place.home / "daemon.log")
        os.kill(daemon.child("one")["pid"], signal.SIGKILL)
        daemon.agent_up("one")


class Agents(SupervisorTest):
    def test_death_brings_a_new_process_and_the_next_generation(self) -> None:
        daemon = self.daemon()
        before = daemon.start_agent("box")
        self.assertEqual(before["generation"], 1)
        os.kill(before["pid"], signal.SIGKILL)
        after = daemon.agent_up("box", before["pid"])
        self.assertEqual(wait_for(lambda: daemon.offers("box")[1:], 5, "a channel"), [2])
        self.assertEqual(after["restarts"], 1)
        self.assertIn("signal 9", after["last_death"])
        down = daemon.downs("box")
        self.assertEqual([down[0][2], down[0][4]], [1, False])
        self.assertTrue(all(e[3] == 3 for e in daemon.order("events") if e[0] == "offer"))
        boxes = list((self.place.home / "blackbox").glob("*-agent-box.txt"))
        self.assertEqual(len(boxes), 1)
        for words in ("signal 9", "welcomed", "channel 1"):
            self.assertIn(words, boxes[0].read_text())
        self.assertIn("channel 2", daemon.order("flight box"))

    def test_want_is_idempotent_and_a_bad_name_is_refused(self) -> None:
        daemon = self.daemon()
        first = daemon.start_agent("box")
        for _ in range(5):
            daemon.order("want box")
        self.assertEqual(daemon.child("box")["pid"], first["pid"])
        daemon.order("want -oProxyCommand=x")
        self.assertTrue(wait_for(lambda: daemon.downs("-oProxyCommand=x"), 5, "refused")[0][4])

    def test_agents_get_no_keys_and_the_users_own_limit(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        daemon = self.daemon(env={"SECRET_KEY": "k", "PLAIN": "p"})
        daemon.order("hide SECRET_KEY")
        pid = daemon.start_agent("box")["pid"]
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        self.assertIn(b"PLAIN=p", environment)
        self.assertNotIn(b"SECRET_KEY=k", environment)
        self.assertIn(f"ALBEDO_SOFT_NOFILE={soft}".encode(), environment)
        self.assertEqual(resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE), (hard, hard))
        self.assertIn(b"box", Path(f"/proc/{pid}/cmdline").read_bytes())

    def test_a_crash_loop_backs_off_and_fails_alone(self) -> None:
        daemon = self.daemon()
        calm = daemon.start_agent("calm")
        self.place.script("bad", "leave")  # exit 0 that nobody asked for, after Ready
        daemon.order("want bad")
        down = wait_for(lambda: [d for d in daemon.downs("bad") if d[4]], 20, "failed")
        self.assertIn("exit 0", down[0][3])
        self.assertEqual(len(daemon.downs("bad")), 11)
        self.assertEqual(daemon.child("bad")["state"], "failed")
        self.assertEqual(daemon.child("calm")["pid"], calm["pid"])
        self.assertLess(len(daemon.log().splitlines()), 50)
        # An api that asks hears it again; an operator brings it back.
        daemon.order("want bad")
        wait_for(lambda: len(daemon.downs("bad")) == 12, 5, "told again")
        self.place.script("bad")
        self.assertTrue(daemon.order(f"steer {RESTART} bad")["ok"])
        daemon.agent_up("bad")

    def test_a_stopped_agent_is_replaced(self) -> None:
        daemon = self.daemon()
        before = daemon.start_agent("box")
        other = daemon.start_agent("other")
        os.kill(before["pid"], signal.SIGSTOP)
        with self.takes(0.9, 4):  # 10 s of silence, 2 s after SIGABRT, in full
            daemon.agent_up("box", before["pid"])
        self.assertIn("hung", daemon.child("box")["last_death"])
        self.assertEqual(daemon.child("other")["pid"], other["pid"])

    def test_a_spinning_agent_is_replaced(self) -> None:
        daemon = self.daemon()
        self.place.script("box", "spin")
        daemon.order("want box")
        first = daemon.agent_up("box")
        self.place.script("box")
        daemon.agent_up("box", first["pid"])
        self.assertIn("hung", daemon.child("box")["last_death"])
        self.assertIn("signal 6", daemon.child("box")["last_death"])

    def test_an_agent_that_is_never_ready_is_replaced(self) -> None:
        daemon = self.daemon()
        self.place.script("box", "mute")
        daemon.order("want box")
        wait_for(lambda: "script read" in daemon.order("flight box"), 5, "started")
        self.place.script("box")
        daemon.agent_up("box", seconds=8)
        self.assertIn("never became ready", daemon.child("box")["last_death"])

    def test_an_agent_may_not_give_orders(self) -> None:
        daemon = self.daemon()
        self.place.script("box", "babble")
        daemon.order("want box")
        down = wait_for(lambda: daemon.downs("box"), 5, "ended")
        self.assertIn("may not say", down[0][3])
        self.assertEqual(daemon.child("other")["state"], "absent")

    def test_operators_orders(self) -> None:
        daemon = self.daemon()
        first = daemon.start_agent("box")
        self.assertTrue(daemon.order(f"steer {RESTART} box")["ok"])
        second = daemon.agent_up("box", first["pid"])
        self.assertTrue(daemon.order(f"steer {QUARANTINE} box")["ok"])
        wait_for(lambda: daemon.child("box")["state"] == "quarantined", 5, "quarantined")
        self.assertFalse(running(second["pid"]))
        daemon.order("want box")
        self.assertEqual(daemon.child("box")["state"], "quarantined")
        self.assertFalse(daemon.order(f"steer {KILL} box")["ok"])
        self.assertTrue(daemon.order(f"steer {RELEASE} box")["ok"])
        third = daemon.agent_up("box")
        self.assertTrue(daemon.order(f"steer {STOP} box")["ok"])
        wait_for(lambda: daemon.child("box")["state"] == "stopped", 5, "stopped")
        daemon.order("want box")
        fourth = daemon.agent_up("box", third["pid"])
        self.assertTrue(daemon.order(f"steer {KILL} box")["ok"])
        daemon.agent_up("box", fourth["pid"])
        failed = [d[4] for d in daemon.downs("box")]
        self.assertEqual(failed[0], False)  # a restart is no failure
        self.assertEqual(failed[-1], False)
        self.assertFalse(daemon.order(f"steer {STOP} nowhere")["ok"])

    def test_a_failed_handover_is_made_again(self) -> None:
        daemon = self.daemon()
        daemon.start_agent("box")
        daemon.order("handover box 1")
        wait_for(lambda: daemon.offers("box") == [1, 2], 5, "a second channel")
        daemon.order("handover box 1")  # about a channel that is no more
        daemon.order("handover box 2")
        wait_for(lambda: daemon.offers("box") == [1, 2, 3], 5, "a third channel")


class Api(SupervisorTest):
    def test_same_port_and_token_agents_stay(self) -> None:
        daemon = self.daemon()
        agents = {host: daemon.start_agent(host)["pid"] for host in ("one", "two")}
        before = daemon.record()
        api = daemon.child("")["pid"]
        os.kill(api, signal.SIGKILL)
        wait_for(lambda: daemon.child("")["pid"] != api, 5, "another api")
        self.assertEqual(daemon.record(), before)
        for host, pid in agents.items():
            self.assertEqual(daemon.child(host)["pid"], pid)
            self.assertEqual(wait_for(lambda h=host: daemon.offers(h), 5, "a channel"), [2])
        welcome = daemon.order("welcome")
        self.assertEqual(welcome["token"], before["token"])

    def test_failed_api_gives_up_the_listener_and_gets_the_same_port_again(self) -> None:
        # Five minutes are failed_for; at a hundredth three seconds.
        daemon = self.daemon(scale=0.01)
        port = int(str(daemon.record()["port"]))
        self.place.script("api", "crash")
        os.kill(self.place.pids("albedo-api")[0], signal.SIGKILL)

        def refused() -> bool:
            with contextlib.suppress(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                return False
            return True

        wait_for(refused, 5, "listener closed")
        self.place.script("api")
        wait_for(lambda: not refused(), 8, "listening again")
        self.assertEqual(daemon.order("welcome")["port"], port)

    def test_an_api_that_does_not_listen_is_restarted(self) -> None:
        daemon = self.daemon()
        api = daemon.child("")["pid"]
        with socket.create_connection(("127.0.0.1", int(str(daemon.record()["port"])))) as client:
            client.sendall(b"flood\n")
            wait_for(lambda: not running(api), 10, "the flooding api is gone")
        wait_for(lambda: daemon.child("")["pid"] not in (0, api), 10, "another api")
        self.assertIn("does not take its control messages", daemon.child("")["last_death"])


class End(SupervisorTest):
    def test_orderly_stop_is_quick_when_nothing_holds(self) -> None:
        for way in ("SIGTERM", "SIGINT", "shutdown"):
            with self.subTest(way):
                daemon = self.daemon(scale=1)
                daemon.start_agent("box")
                with self.takes(0, 1):
                    if way == "shutdown":
                        daemon.order("shutdown")
                    else:
                        daemon.process.send_signal(getattr(signal, way))
                    self.assertEqual(daemon.process.wait(5), 0)
                self.assertEqual(self.place.pids(), [])
                self.assertFalse((self.place.home / "daemon.json").exists())

    def test_what_holds_is_ended_after_the_drain(self) -> None:
        self.place.script("box", "hold")
        daemon = self.daemon()
        daemon.start_agent("box")
        daemon.process.terminate()
        with self.takes(0.6, 2):  # 5 s and 1.5 s in full
            self.assertEqual(daemon.process.wait(5), 0)
        self.assertEqual(self.place.pids(), [])

    def test_a_second_signal_ends_at_once(self) -> None:
        self.place.script("box", "hold")
        daemon = self.daemon(scale=1)
        daemon.start_agent("box")
        api = daemon.child("")["pid"]
        daemon.process.terminate()
        wait_for(lambda: not running(api), 5, "draining")
        self.assertIsNone(daemon.process.poll())
        with self.takes(0, 1):
            daemon.process.terminate()
            self.assertEqual(daemon.process.wait(5), 0)
        self.assertEqual(self.place.pids(), [])

    def test_hang_up_stops_only_what_runs_in_a_terminal(self) -> None:
        daemon = self.daemon()
        daemon.process.send_signal(signal.SIGHUP)
        daemon.start_agent("box")
        daemon.process.terminate()
        daemon.process.wait(5)
        front = self.place.start("--foreground")
        self.assertEqual(front.said(), "ready\n")
        front.process.send_signal(signal.SIGHUP)
        self.assertEqual(front.process.wait(5), 0)

    def test_sigkill_leaves_no_child_and_the_next_start_takes_over(self) -> None:
        daemon = self.daemon()
        for i in range(20):
            daemon.start_agent(f"host{i}")
        old = daemon.record()
        daemon.process.kill()
        daemon.process.wait()
        wait_for(lambda: not self.place.pids(), 2, "no child is left")
        self.assertEqual(daemon.record(), old)  # stale
        again = self.daemon()
        self.assertNotEqual(again.record()["token"], old["token"])
        self.assertEqual(again.record()["pid"], again.pid)

    def test_sigkill_while_it_spawns_leaves_no_child(self) -> None:
        seed = random.randrange(1 << 32)
        chance = random.Random(seed)
        for _ in range(20):
            daemon = self.place.start()
            time.sleep(chance.uniform(0, 0.02))
            daemon.process.kill()
            daemon.process.wait()
            os.close(daemon.ready)
            wait_for(lambda: not self.place.pids(), 2, f"no child is left, seed {seed}")
        self.daemon()


class Freeze(SupervisorTest):
    def freeze(self, head_start: float) -> None:
        daemon = self.daemon()
        pids = [daemon.start_agent(f"box{i}")["pid"] for i in range(3)] + [daemon.child("")["pid"]]
        tree = [daemon.pid, *pids]
        for pid in tree:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(1.5)  # 15 s in full
        os.kill(daemon.pid, signal.SIGCONT)
        time.sleep(head_start)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        time.sleep(1.5)  # as long as the watchdog would need
        self.assertEqual([p["restarts"] for p in daemon.order("processes")], [0] * 5)
        # One that really hangs is still replaced.
        os.kill(pids[0], signal.SIGSTOP)
        daemon.agent_up("box0", pids[0])

    def test_a_frozen_tree_restarts_nobody(self) -> None:
        self.freeze(0)

    def test_nor_when_the_supervisor_wakes_first(self) -> None:
        self.freeze(0.3)


if __name__ == "__main__":
    unittest.main()
