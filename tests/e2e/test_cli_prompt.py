"""albedo prompt, history, watch, models and config check, as a person runs them."""

from __future__ import annotations

import json
import signal
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import wait_until  # noqa: E402
from turn_rig import TurnTest, cells  # noqa: E402


class Prompting(TurnTest):
    def test_a_prompt_shows_words_cells_and_output_and_history_shows_them_again(self) -> None:
        self.model.script([cells("print('printed')\n40 + 2"), {"text": "that was it"}])
        shown = self.daemon.cli("prompt", "what is it?").stdout
        for part in (">>> 40 + 2", "printed\n42\n", "that was it\n"):
            self.assertIn(part, shown)
            self.assertEqual(shown.count(part), 1, shown)
        again = self.daemon.cli("history").stdout
        for part in ("> what is it?", ">>> 40 + 2", "printed\n42\n", "that was it\n"):
            self.assertIn(part, again)
        self.assertEqual(len(self.daemon.get("/sessions")), 1)

    def test_a_prompt_from_standard_input_to_a_named_session_as_json(self) -> None:
        session = self.daemon.session()
        self.model.script([{"text": "read"}])
        answer = json.loads(self.daemon.cli("--json", "prompt", "-s", session, "-", stdin="two\nlines").stdout)
        self.assertEqual((answer["outcome"], answer["text"]), ("completed", "read"))
        self.assertEqual(self.events(session)[0]["text"], "two\nlines")

    def test_a_failed_turn_fails_with_the_providers_words(self) -> None:
        self.model.script([{"status": 400, "body": {"error": {"message": "too clever"}}}])
        ended = self.daemon.cli("prompt", "x", code=1)
        self.assertIn("too clever", ended.stdout)

    def test_ctrl_c_interrupts_the_turn_and_its_cell(self) -> None:
        self.model.script([cells("open('begun', 'w')\nimport time\ntime.sleep(60)"), {"text": "ok"}])
        child = self.daemon.start_cli("prompt", "wait")
        wait_until(lambda: (self.daemon.workspace / "begun").exists(), 20, "the cell")
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(20), 130)
        self.assertEqual([r["status"] for r in self.results()], ["interrupted"])

    def test_a_prompt_is_followed_over_a_crash_of_the_daemon(self) -> None:
        self.model.script([cells("open('begun', 'w')\nimport time\ntime.sleep(3)\nprint('woke')"),
                           {"text": "after all"}])
        child = self.daemon.start_cli("prompt", "wait")
        wait_until(lambda: (self.daemon.workspace / "begun").exists(), 20, "the cell")
        self.daemon.kill()
        self.daemon.boot()
        out, _ = child.communicate(timeout=40)
        self.assertEqual(child.returncode, 0, out)
        self.assertIn(b"woke", out)
        self.assertIn(b"after all", out)

    def test_watch_shows_what_happens(self) -> None:
        child = self.daemon.start_cli("--json", "watch", self.session)
        self.prompt("seen?")
        kinds = []
        while "turn_completed" not in kinds:
            kinds.append(json.loads(child.stdout.readline())["type"])
        self.assertIn("user", kinds)
        child.send_signal(signal.SIGINT)
        self.assertEqual(child.wait(10), -signal.SIGINT)


class Config(TurnTest):
    def test_models_and_config_check_say_what_is_there_and_what_is_wrong(self) -> None:
        self.assertIn("fake", self.daemon.cli("models").stdout)
        self.assertIn("ok", self.daemon.cli("config", "check").stdout)
        self.assertNotIn("fixture-key", self.daemon.cli("--json", "models").stdout)
        file = self.daemon.home / "config.json"
        file.write_text('{"active": "fake",\n "providers": }')
        self.assertIn("line 2", self.daemon.cli("config", "check", code=1).stdout)
        file.write_text(json.dumps({"active": "a", "providers": {"a": {
            "baseUrl": "http://127.0.0.1:9/v1", "model": "m", "apiKeyEnv": "NO_SUCH_VARIABLE"}}}))
        self.assertIn("NO_SUCH_VARIABLE", self.daemon.cli("config", "check", code=1).stdout)
        self.assertEqual(self.model.requests, [])


if __name__ == "__main__":
    unittest.main()
