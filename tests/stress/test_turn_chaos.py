"""SIGKILL at random instants of turns: every prompt is delivered once, no cell runs twice, no call
stays without its result, and the model never gets a request that breaks its protocol.

The seed is printed; ALBEDO_TEST_SEED repeats it. ALBEDO_TEST_LONG=1 does 200 kills instead of 12."""

from __future__ import annotations

import collections
import http.client
import os
import random
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import HttpError, uuid7, wait_until  # noqa: E402
from turn_rig import TurnTest, cells  # noqa: E402

KILLS = 200 if os.environ.get("ALBEDO_TEST_LONG") else 12
LONGEST_LIFE = 0.4  # seconds between a prompt and the kill


class Chaos(TurnTest):
    def send(self, body: dict) -> None:
        """As a client does: the same request again until it is answered."""

        def is_sent() -> bool:
            try:
                self.daemon.post(f"/sessions/{self.session}/events", body)
                return True
            except (OSError, http.client.HTTPException, ValueError):
                return False
            except HttpError as failure:
                if failure.status in (409, 503):  # the queue is full, a part is being started
                    return False
                raise

        wait_until(is_sent, 60, "a prompt to be taken")

    def victims(self) -> list[int]:
        """The api alone, or the whole daemon."""
        return [*self.daemon.processes("albedo-api"), self.daemon.pid]

    def test_prompts_are_delivered_once_over_kills_at_any_instant(self) -> None:
        seed = int(os.environ.get("ALBEDO_TEST_SEED") or random.randrange(1 << 32))
        print(f"seed {seed}", flush=True)
        rng = random.Random(seed)
        marked = [0]

        def code() -> str:
            marked[0] += 1
            return (f"open('ran', 'a').write('{marked[0]}\\n')\n"
                    f"import time\ntime.sleep({rng.choice([0, 0.05, 0.3])})")

        self.prompt("warm")
        self.idle()
        for number in range(KILLS):
            self.model.script([cells(code(), code()), {"text": "words " * 20}, cells(code()),
                               {"text": "ok"}])
            self.send({"operationId": uuid7(), "content": f"prompt {number}"})
            time.sleep(rng.random() * LONGEST_LIFE)  # the instant is what is tried here
            self.daemon.kill(rng.choice(self.victims()))
            self.daemon.boot()
        self.idle(seconds=120)
        said = [event["text"] for event in self.events() if event["type"] == "user"]
        self.assertEqual(said, ["warm", *(f"prompt {number}" for number in range(KILLS))])
        ran = collections.Counter((self.daemon.workspace / "ran").read_text().split())
        self.assertEqual([mark for mark, times in ran.items() if times > 1], [])
        ends = [event["operationId"] for event in self.events() if event["type"] == "turn_completed"]
        self.assertEqual(len(ends), len(set(ends)))
        self.assertEqual(len(ends), KILLS + 1)
        self.assert_fair()


if __name__ == "__main__":
    unittest.main()
