"""Turns through everything, against a model as strict as real ones."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import signal
import socket
import sqlite3
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import HttpError, uuid7, wait_until  # noqa: E402
from turn_rig import TurnTest, cells, notes_of  # noqa: E402


def uuid7_at(seconds_from_now: float) -> str:
    stamp = int((time.time() + seconds_from_now) * 1000)
    text = f"{stamp:012x}"
    return f"{text[:8]}-{text[8:]}-7{uuid7()[15:]}"


class AnyProtocol:
    """For each protocol that a model may speak."""

    def test_a_turn_runs_its_calls_in_order_and_ends_with_the_models_words(self) -> None:
        self.model.script([cells("a = 20", "a + 1"), {"text": "done"}])
        operation = self.prompt()
        self.assertTrue(self.status()["running"])
        self.idle()
        self.assertEqual([r["value"] for r in self.results()], ["", "21"])
        kinds = [event["type"] for event in self.events()]
        self.assertEqual(kinds, ["user", "tool_call", "tool_call", "tool", "tool", "text",
                                 "turn_completed"])
        self.assertEqual(self.events()[-1]["outcome"], "completed")
        state = self.daemon.get(f"/operations/{operation}")
        self.assertEqual((state["status"], state["deliveryStatus"], state["blockingReason"]),
                         ("accepted", "committed", None))
        self.assertEqual(state["result"]["outcome"], "completed")
        self.assert_fair()

    def test_ids_that_a_model_uses_again_in_every_turn_stay_unique(self) -> None:
        for number in range(3):
            self.model.script([cells(f"{number}"), {"text": "ok"}])
            self.prompt()
            self.idle()
        self.assertEqual([r["value"] for r in self.results()], ["0", "1", "2"])
        self.assert_fair()

    def test_a_call_that_cannot_run_is_answered_and_the_turn_goes_on(self) -> None:
        self.model.script([{"calls": [["call-1", {"cod": "1"}]]}, {"text": "sorry"}])
        self.prompt()
        self.idle()
        self.assertEqual(self.results()[0]["status"], "error")
        self.assertEqual(self.events()[-1]["outcome"], "completed")
        self.assert_fair()


class Responses(AnyProtocol, TurnTest):
    pass


class ChatCompletions(AnyProtocol, TurnTest):
    protocol = "chat_completions"


class Anthropic(AnyProtocol, TurnTest):
    protocol = "anthropic"


class OneTurn(TurnTest):
    def test_a_passing_failure_is_waited_out_and_a_lasting_one_ends_the_turn_visibly(self) -> None:
        self.model.script([{"status": 503, "body": {"error": {"message": "busy"}},
                            "retry_after": "1"}, {"text": "here"}])
        self.prompt()
        wait_until(lambda: self.status()["phase"] == "retry_wait", 10, "the pause")
        self.assertIn("busy", self.status()["reason"])
        self.idle()
        self.assertEqual(self.events()[-1]["outcome"], "completed")
        self.model.script([{"status": 401, "body": {"error": {"message": "no such key"}}}])
        self.prompt()
        self.idle()
        last = self.events()[-1]
        self.assertEqual(last["outcome"], "failed")
        self.assertIn("no such key", last["message"])

    def test_the_last_request_can_be_seen_with_its_sizes(self) -> None:
        self.assertIsNone(self.daemon.get(f"/sessions/{self.session}/context")["request"])
        self.prompt("what do you see?")
        self.idle()
        seen = self.daemon.get(f"/sessions/{self.session}/context")["request"]
        sent = self.model.requests[-1]["body"]
        self.assertEqual(seen["instructions"]["text"], sent["instructions"])
        self.assertEqual(seen["items"][-1]["text"], "what do you see?")
        self.assertEqual(seen["instructions"]["bytes"], len(sent["instructions"].encode()))


class Operations(TurnTest):
    def refused(self, status: int, path: str, body: dict) -> None:
        with self.assertRaises(HttpError) as caught:
            self.daemon.post(path, body)
        self.assertEqual(caught.exception.status, status, caught.exception)

    def test_one_id_is_one_prompt_also_at_once_after_a_crash_and_after_the_sessions_end(self) -> None:
        body = {"operationId": uuid7(), "content": "once", "clientId": "c1"}
        path = f"/sessions/{self.session}/events"
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: self.daemon.post(path, body), range(16)))
        self.assertEqual(len({json.dumps(answer) for answer in answers}), 1)
        self.idle()
        self.assertEqual([e["text"] for e in self.events() if e["type"] == "user"], ["once"])
        self.refused(409, path, {**body, "content": "other"})
        self.daemon.kill()
        self.daemon.boot()
        self.assertEqual(self.daemon.post(path, body), answers[0])
        self.daemon.request("DELETE", f"/sessions/{self.session}")
        self.assertEqual(self.daemon.post(path, body), answers[0])
        self.refused(404, path, {"operationId": uuid7(), "content": "new"})

    def test_ids_too_old_or_ahead_and_blank_prompts_are_refused(self) -> None:
        path = f"/sessions/{self.session}/events"
        self.refused(410, path, {"operationId": uuid7_at(-8 * 86400), "content": "x"})
        self.refused(400, path, {"operationId": uuid7_at(600), "content": "x"})
        self.refused(400, path, {"operationId": "no-uuid", "content": "x"})
        self.refused(409, path, {"operationId": uuid7(), "content": " \n"})
        with self.assertRaises(HttpError) as caught:
            self.daemon.get(f"/operations/{uuid7()}")
        self.assertEqual(caught.exception.status, 404)
        self.assertEqual(self.events(), [])

    def test_32_inputs_wait_in_order_over_a_crash_and_one_more_is_refused(self) -> None:
        self.model.script([cells("import time\ntime.sleep(4)"), {"text": "ok"}])
        self.prompt("first")
        wait_until(lambda: self.status()["phase"] == "running_cell", 20, "the cell")
        for number in range(32):
            self.prompt(f"waits {number}")
        self.refused(409, f"/sessions/{self.session}/events",
                     {"operationId": uuid7(), "content": "one too many"})
        self.daemon.kill()
        self.daemon.boot()
        self.idle()
        said = [event["text"] for event in self.events() if event["type"] == "user"]
        self.assertEqual(said, ["first", *(f"waits {number}" for number in range(32))])
        self.assert_fair()


class Interrupting(TurnTest):
    def test_a_request_under_way_is_cancelled_and_what_came_of_it_stays(self) -> None:
        self.model.script([{"text": "some words and then nothing " * 20, "stall": 900}])
        self.prompt()
        wait_until(lambda: self.status()["phase"] == "streaming", 20, "the first words")
        began = time.monotonic()
        self.assertTrue(self.daemon.post(f"/sessions/{self.session}/interrupt", {})["interrupted"])
        self.idle(seconds=10)
        self.assertLess(time.monotonic() - began, 10)
        self.assertEqual(self.events()[-1]["outcome"], "interrupted")
        self.assertEqual(self.events()[-2]["type"], "text")
        self.prompt("again")
        self.idle()
        self.assert_fair()

    def test_a_cell_is_interrupted_what_stood_behind_it_does_not_run_and_names_stay(self) -> None:
        self.model.script([cells("kept = 1\nopen('begun', 'w')\nimport time\ntime.sleep(60)",
                                 "open('ran', 'w')"), {"text": "ok"}])
        self.prompt()
        wait_until(lambda: (self.daemon.workspace / "begun").exists(), 20, "the cell")
        waiting = self.prompt("cancelled with it")
        done = self.daemon.post(f"/sessions/{self.session}/interrupt", {})
        self.assertEqual(done, {"interrupted": True, "cancelled": 1})
        self.idle()
        self.assertEqual([r["status"] for r in self.results()], ["interrupted", "not_run"])
        self.assertFalse((self.daemon.workspace / "ran").exists())
        self.assertEqual(self.daemon.get(f"/operations/{waiting}")["deliveryStatus"], "cancelled")
        self.model.script([cells("kept"), {"text": "ok"}])
        self.prompt()
        self.idle()
        self.assertEqual(self.results()[-1]["value"], "1")
        self.assert_fair()

    def test_one_submission_is_cancelled_and_others_stay(self) -> None:
        self.model.script([cells("import time\ntime.sleep(2)"), {"text": "ok"}])
        self.prompt("first")
        self.prompt("second", submissionId="s2")
        self.prompt("third", submissionId="s3")
        path = f"/sessions/{self.session}/cancel-submission"
        self.assertEqual(self.daemon.post(path, {"submissionId": "s2"})["outcome"], "cancelled_queued")
        self.assertEqual(self.daemon.post(path, {"submissionId": "s2"})["outcome"], "not_pending")
        self.idle()
        said = [event["text"] for event in self.events() if event["type"] == "user"]
        self.assertEqual(said, ["first", "third"])


class Crashes(TurnTest):
    def test_a_cell_under_way_is_joined_again_and_runs_once(self) -> None:
        code = "open('ran', 'a').write('x')\nimport time\ntime.sleep(3)\n'whole'"
        self.model.script([cells(code), {"text": "ok"}])
        self.prompt()
        wait_until(lambda: (self.daemon.workspace / "ran").exists(), 20, "the cell")
        self.daemon.kill()
        self.daemon.boot()
        self.assertTrue(self.status()["running"])
        self.idle()
        self.assertEqual([r["value"] for r in self.results()], ["'whole'"])
        self.assertEqual((self.daemon.workspace / "ran").read_text(), "x")
        self.assertEqual(self.events()[-1]["outcome"], "completed")
        self.assert_fair()

    def test_after_a_restart_the_model_is_told_once_that_the_kernel_carried_on(self) -> None:
        self.model.script([cells("job = run('sleep', '60')"), {"text": "ok"}])
        self.prompt()
        self.idle()
        self.daemon.kill()
        self.daemon.boot()
        wait_until(lambda: self.status()["kernel"]["link"] == "attached", 20, "the kernel")
        for _ in range(2):
            self.prompt()
            self.idle()
        first, second = self.model.requests[-2:]
        self.assertIn("carried on", notes_of(first))
        self.assertIn("sleep 60", notes_of(first))
        self.assertNotIn("carried on", notes_of(second))

    def test_a_lost_kernel_is_told_once_and_its_cell_is_not_run_again(self) -> None:
        code = "open('ran', 'a').write('x')\nimport time\ntime.sleep(60)"
        self.model.script([cells(code), {"text": "ok"}])
        self.prompt()
        wait_until(lambda: (self.daemon.workspace / "ran").exists(), 20, "the cell")
        os.kill(self.status()["kernel"]["pid"], signal.SIGKILL)
        self.idle()
        self.assertEqual([r["status"] for r in self.results()], ["lost"])
        self.assertIn("was lost", notes_of(self.model.requests[-1]))
        self.assertEqual((self.daemon.workspace / "ran").read_text(), "x")
        self.prompt()
        self.idle()
        self.assertNotIn("was lost", notes_of(self.model.requests[-1]))
        self.assert_fair()

    def test_a_crash_between_the_last_answer_and_the_end_of_its_turn_asks_the_model_nothing(self) -> None:
        operation = self.prompt()
        self.idle()
        self.daemon.stop()
        # As the store is after a SIGKILL at that instant.
        with contextlib.closing(sqlite3.connect(next(self.daemon.home.glob("*.db")))) as store, store:
            store.execute("DELETE FROM transcript WHERE kind = 'turn_completed'")
            store.execute("INSERT INTO turns VALUES (?, ?, '', 0, 0)", (self.session, operation))
        self.daemon.boot()
        self.idle()
        self.assertEqual([e["type"] for e in self.events()], ["user", "text", "turn_completed"])
        self.assertEqual(self.events()[-1]["outcome"], "completed")
        self.assertEqual(len(self.model.requests), 1)

    def test_an_orderly_stop_in_the_middle_of_an_answer_is_no_end_of_the_turn(self) -> None:
        self.model.script([{"text": "some words and then nothing " * 20, "stall": 900},
                           {"text": "the answer"}])
        self.prompt()
        wait_until(lambda: self.status()["phase"] == "streaming", 20, "the first words")
        self.daemon.stop()
        self.daemon.boot()
        self.idle()
        self.assertEqual([e["type"] for e in self.events()], ["user", "text", "turn_completed"])
        self.assertEqual(self.events()[1]["text"], "the answer")


class Sessions(TurnTest):
    def test_a_session_that_is_deleted_in_the_middle_of_a_turn_costs_nobody_else_anything(self) -> None:
        other = self.daemon.session()
        self.model.script([cells("open('begun', 'w')\nimport time\ntime.sleep(60)"), {"text": "ok"}])
        operation = self.prompt()
        waiting = self.prompt()
        wait_until(lambda: (self.daemon.workspace / "begun").exists(), 20, "the cell")
        with self.assertRaises(HttpError) as caught:
            self.daemon.post(f"/sessions/{self.session}/workspace", {"workspace": str(self.daemon.home)})
        self.assertEqual(caught.exception.status, 409)
        api = self.daemon.processes("albedo-api")
        self.daemon.request("DELETE", f"/sessions/{self.session}")
        self.model.script([cells("1"), {"text": "ok"}])
        self.prompt(session=other)
        self.idle(other)
        self.assertEqual([r["value"] for r in self.results(other)], ["1"])
        self.assertEqual(self.daemon.get(f"/operations/{operation}")["deliveryStatus"], "committed")
        self.assertEqual(self.daemon.get(f"/operations/{waiting}")["deliveryStatus"], "cancelled")
        self.assertEqual(self.daemon.processes("albedo-api"), api)

    def test_a_skills_text_is_taken_at_admission_and_a_link_is_told(self) -> None:
        skill = self.daemon.workspace / ".agents/skills/count/SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text("---\nname: count\ndescription: counts things\n---\nCount to three.\n")
        body = {"operationId": uuid7(), "type": "skill", "name": "count", "arguments": "slowly"}
        first = self.daemon.post(f"/sessions/{self.session}/events", body)
        self.idle()
        said = self.model.requests[-1]["body"]["input"][-1]["content"][0]["text"]
        self.assertIn("Count to three.", said)
        self.assertIn("slowly", said)
        skill.unlink()
        self.assertEqual(self.daemon.post(f"/sessions/{self.session}/events", body), first)
        self.daemon.post(f"/sessions/{self.session}/commands", {
            "name": "/link", "args": {"action": "add", "details": str(self.daemon.user_home)}})
        self.assertEqual(self.events()[-1]["type"], "note")
        for told in (1, 0):
            self.prompt()
            self.idle()
            self.assertEqual(notes_of(self.model.requests[-1]).count("linked with"), told)


class Streams(TurnTest):
    def batches(self, last: str = "", until: str = "turn_completed") -> list[tuple[dict, str]]:
        seen = []
        for name, data, event_id in self.daemon.stream(f"/sessions/{self.session}/stream", last):
            if name != "message":
                continue
            seen.append((json.loads(data), event_id))
            if any(event["type"] == until for event in seen[-1][0]["events"]):
                return seen
        raise AssertionError("the stream ended")

    def test_a_stream_goes_on_behind_its_last_id_and_begins_anew_for_another_generation(self) -> None:
        self.model.script([{"text": "words " * 30}])
        self.prompt()
        self.idle()
        first, last_id = self.batches()[-1]
        self.assertEqual(first["events"][0]["type"], "reset")
        self.assertEqual([e["type"] for e in first["events"]],
                         ["reset", "user", "text", "turn_completed"])
        self.model.script([{"text": "more"}])
        self.prompt("second")
        self.idle()
        later = [e for batch, _ in self.batches(last_id) for e in batch["events"]]
        self.assertNotIn("reset", [e["type"] for e in later])
        self.assertEqual([e["text"] for e in later if e["type"] == "user"], ["second"])
        self.assertEqual("".join(e["text"] for e in later if e["type"] == "text_delta"), "more")
        self.daemon.kill()
        self.daemon.boot()
        anew = self.batches(last_id)[0][0]
        self.assertEqual([e["type"] for e in anew["events"]],
                         ["reset"] + ["user", "text", "turn_completed"] * 2)

    def test_a_reader_that_does_not_read_is_cut_and_costs_nobody_anything(self) -> None:
        slow = socket.socket()
        self.addCleanup(slow.close)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", self.daemon.port))
        slow.sendall(f"GET /sessions/{self.session}/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                     f"Authorization: Bearer {self.daemon.token}\r\n\r\n".encode())
        self.assertIn(b"200", slow.recv(64))
        long = "x" * 900_000
        for _ in range(8):
            self.prompt(long)
            self.idle()
        self.assertEqual(len([e for e in self.events() if e["type"] == "user"]), 8)
        slow.settimeout(30)
        rest = b""
        while piece := slow.recv(1 << 16):
            rest += piece
        self.assertIn(b"event: overflow", rest[-400:])
        self.assertEqual(self.events()[-2]["text"], "ok")
        self.assert_fair()

    def test_history_pages_backwards_without_gap_or_repeat(self) -> None:
        for _ in range(3):
            self.prompt()
            self.idle()
        rows: list[int] = []
        page = self.daemon.get(f"/sessions/{self.session}/history?rows=4")
        while True:
            rows = [event["row"] for event in page["events"]] + rows
            if not page["more"]:
                break
            page = self.daemon.get(f"/sessions/{self.session}/history?rows=4&before={page['before']}")
        self.assertEqual(rows, list(range(1, 10)))


if __name__ == "__main__":
    unittest.main()
