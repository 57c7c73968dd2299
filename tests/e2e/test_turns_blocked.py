"""Prompts for hosts that cannot take them now: kept, with ssh's words, until they can."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import wait_until  # noqa: E402
from turn_rig import TurnTest, cells  # noqa: E402

SSH = """#!/bin/sh
printf '%s\\n' "$*" >> {log}
while [ $# -gt 0 ]; do
    case "$1" in
        -o) shift 2 ;;
        -*) shift ;;
        *) break ;;
    esac
done
shift
if [ -e {refusal} ]; then
    cat {refusal} >&2
    exit 255
fi
exec env -i HOME={home} PATH={path} SHELL=/bin/sh /bin/sh -c "$*"
"""


class Blocked(TurnTest):
    def setUp(self) -> None:
        super().setUp()
        root = self.daemon.root
        self.ssh_log = root / "ssh.log"
        self.refusal = root / "refusal"
        home, tools = root / "far-home", root / "tools"
        for folder in (home, home / "proj", tools):
            folder.mkdir()
        ssh = tools / "ssh"
        path = self.daemon.environment["PATH"]
        ssh.write_text(SSH.format(log=self.ssh_log, refusal=self.refusal, home=home,
                                  path=shlex.quote(f"{Path(shutil.which('python3')).parent}:{path}")))
        ssh.chmod(0o755)
        self.daemon.stop()
        self.daemon.environment["PATH"] = f"{tools}:{path}"
        self.daemon.boot()
        self.far = self.daemon.session(f"far:{home}/proj")

    def blocking(self, operation: str) -> str | None:
        return self.daemon.get(f"/operations/{operation}")["blockingReason"]

    def ssh_calls(self) -> int:
        return len(self.ssh_log.read_text().splitlines()) if self.ssh_log.exists() else 0

    def test_a_host_that_needs_a_sign_in_keeps_the_prompt_is_left_alone_and_goes_once_warmed(self) -> None:
        self.refusal.write_text("far: Permission denied (publickey).\n")
        operation = self.prompt(session=self.far)
        wait_until(lambda: self.blocking(operation), 10, "ssh's words")
        self.assertIn("Permission denied", self.blocking(operation))
        state = self.daemon.get(f"/operations/{operation}")
        self.assertEqual(state["deliveryStatus"], "pending")
        self.assertEqual(self.status(self.far)["phase"], "blocked")
        self.assertTrue(self.status(self.far)["running"])
        self.assertEqual(self.model.requests, [])
        calls = self.ssh_calls()
        time.sleep(17)  # past the next look at the host
        self.assertEqual(self.ssh_calls(), calls)
        # A crash keeps it waiting; another session's turn is not held up.
        self.daemon.kill()
        self.daemon.boot()
        wait_until(lambda: self.blocking(operation), 10, "ssh's words after a restart")
        self.prompt("here")
        self.idle()
        self.refusal.unlink()
        self.model.script([cells("6 * 7"), {"text": "ok"}])
        self.daemon.post("/hosts/far/warm", {})
        began = time.monotonic()
        self.idle(self.far)
        self.assertLess(time.monotonic() - began, 12)  # at once, not at the next look
        self.assertEqual(self.daemon.get(f"/operations/{operation}")["deliveryStatus"], "committed")
        self.assertEqual([r["value"] for r in self.results(self.far)], ["42"])

    def test_a_host_out_of_reach_is_looked_at_again_and_a_waiting_prompt_can_be_cancelled(self) -> None:
        self.refusal.write_text("ssh: connect to host far port 22: Connection refused\n")
        first = self.prompt("first", session=self.far)
        second = self.prompt("second", session=self.far)
        wait_until(lambda: self.blocking(first) and self.blocking(second), 10, "ssh's words")
        self.assertIn("Connection refused", self.blocking(second))
        path = f"/sessions/{self.far}/cancel-submission"
        self.assertEqual(self.daemon.post(path, {"submissionId": first})["outcome"], "cancelled_queued")
        self.refusal.unlink()
        self.idle(self.far)
        said = [event["text"] for event in self.events(self.far) if event["type"] == "user"]
        self.assertEqual(said, ["second"])
        self.assertEqual(self.daemon.get(f"/operations/{first}")["deliveryStatus"], "cancelled")

    def test_an_interrupt_that_cannot_reach_its_cell_ends_the_turn_and_is_delivered_later(self) -> None:
        begun = self.daemon.root / "begun"
        self.model.script([cells(f"open('{begun}', 'w')\nimport time\ntime.sleep(60)"), {"text": "ok"}])
        self.prompt(session=self.far)
        wait_until(begun.exists, 30, "the cell")
        cell = next(e["cell"] for e in self.events(self.far) if e["type"] == "tool_call")
        self.refusal.write_text("ssh: connect to host far port 22: Connection refused\n")
        (bridge,) = [pid for pid in self.daemon.processes("albedo_bridge.py")
                     if b".albedo-remote" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        self.daemon.kill(bridge)
        wait_until(lambda: self.status(self.far)["kernel"]["link"] != "attached", 10, "the break")
        self.daemon.post(f"/sessions/{self.far}/interrupt", {})
        self.idle(self.far, seconds=10)
        self.assertEqual([r["status"] for r in self.results(self.far)], ["unknown"])
        self.refusal.unlink()
        path = f"/sessions/{self.far}/cells/{cell}"
        wait_until(lambda: self.daemon.get(path)["status"] == "interrupted", 30, "the interrupt")


if __name__ == "__main__":
    unittest.main()
