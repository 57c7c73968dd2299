"""A kernel that nobody uses is ended, and its names are back with the session's next cell."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import Daemon, albedo_program, wait_until  # noqa: E402
from turn_rig import TurnTest, cells, notes_of  # noqa: E402

SECONDS = 30


def kernels(daemon: Daemon) -> list[str]:
    folder = daemon.home / "run"
    return sorted(os.listdir(folder)) if folder.is_dir() else []


class IdleReleaseTest(unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = Daemon(start=False)
        self.daemon.__enter__()
        self.addCleanup(lambda: self.daemon.__exit__(None, None, None))
        self.daemon.environment["ALBEDO_IDLE_SECONDS"] = "1"
        self.daemon.boot()
        self.session = self.daemon.session()

    def notes(self) -> list[str]:
        events = self.daemon.get(f"/sessions/{self.session}/history")["events"]
        return [event["text"] for event in events if event["type"] == "note"]

    def released(self) -> None:
        wait_until(lambda: not kernels(self.daemon), SECONDS, "the end of the idle kernel")

    def test_names_survive_the_release_and_a_restart_of_the_daemon(self) -> None:
        self.daemon.cell(self.session, "import os\nx = {'a': 1}\ndef f(): return x['a'] + 1\npid = os.getpid()")
        self.released()
        wait_until(lambda: any("was ended" in note for note in self.notes()), SECONDS, "a note")
        status = self.daemon.get(f"/sessions/{self.session}/status")
        self.assertEqual(status["kernel"]["link"], "none")
        self.daemon.kill()
        self.daemon.boot()
        done = self.daemon.cell(self.session, "f(), x, os.getpid() == pid")
        self.assertEqual((done["status"], done["value"]), ("ok", "(2, {'a': 1}, False)"))
        wait_until(lambda: any("Restored: " in note for note in self.notes()), SECONDS, "what came back")
        self.assertIn("Run again from their source: ", self.notes()[-1])

    def test_a_kernel_that_works_is_kept(self) -> None:
        self.daemon.cell(self.session, "job = run('sleep', '100'); x = 1")
        before = kernels(self.daemon)
        self.assertEqual(self.daemon.cell(self.session, "import time; time.sleep(3); x")["value"], "1")
        self.assertEqual(kernels(self.daemon), before)
        self.daemon.cell(self.session, "job.stop()")
        self.released()

    def test_no_note_is_told_twice_and_nothing_is_lost_when_the_api_dies_over_it(self) -> None:
        self.daemon.cell(self.session, "x = 7")
        api, = self.daemon.processes("albedo-api")
        wait_until(lambda: (self.daemon.home / "state").is_dir(), SECONDS, "a state file")
        os.kill(api, signal.SIGKILL)
        self.released()
        self.assertEqual(self.daemon.cell(self.session, "x")["value"], "7")
        self.released()
        self.assertEqual(self.daemon.cell(self.session, "x")["value"], "7")


def another_version(folder: Path) -> Path:
    """The programs again, with a bundle of another digest; the `albedo` among them."""
    shutil.copytree(albedo_program().resolve().parent, folder)
    digest = (albedo_program().resolve().parent.parent / "bundle/bundle.digest").read_bytes().strip()
    agent = folder / "albedo-hostagent"
    program = agent.read_bytes()
    assert digest in program, "the digest is not where it was"
    agent.write_bytes(program.replace(digest, digest[::-1]))
    return folder / "albedo"


class AnotherVersionTest(unittest.TestCase):
    def test_an_idle_kernel_of_another_version_makes_room_for_one_of_this(self) -> None:
        with Daemon() as daemon:
            session = daemon.session()
            daemon.cell(session, "x = 3")
            old = kernels(daemon)
            daemon.stop()
            daemon.program = another_version(daemon.root / "other")
            daemon.environment["ALBEDO_IDLE_SECONDS"] = "2"
            daemon.boot()
            wait_until(lambda: daemon.get(f"/sessions/{session}/status")["kernel"]["stale"], SECONDS,
                       "word of its age")
            wait_until(lambda: kernels(daemon) != old, SECONDS, "the end of the old kernel")
            self.assertEqual(daemon.cell(session, "x")["value"], "3")
            self.assertFalse(daemon.get(f"/sessions/{session}/status")["kernel"]["stale"])


class IdleModelTest(TurnTest):
    environment = {"ALBEDO_IDLE_SECONDS": "1"}

    def test_the_model_is_told_what_came_back(self) -> None:
        self.model.script([cells("x = 5"), {"text": "kept"}])
        self.prompt()
        self.idle()
        wait_until(lambda: not kernels(self.daemon), SECONDS, "the end of the idle kernel")
        self.model.script([cells("x"), cells("x + 1"), {"text": "there"}])
        self.prompt()
        self.idle()
        self.assertEqual([r["value"] for r in self.results()][-2:], ["5", "6"])
        told = [notes_of(request) for request in self.model.requests]
        self.assertEqual(len([text for text in told if "come back with the next cell" in text]), 1)
        self.assertEqual(len([text for text in told if "Restored: x" in text]), 1)


if __name__ == "__main__":
    unittest.main()
