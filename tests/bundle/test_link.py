"""The numbering and the output log, without processes."""
from __future__ import annotations

import os
import random
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bundle"))

import albedo_json  # noqa: E402
import albedo_output  # noqa: E402
from albedo_link import GAP, NEW, OUTBOX_FRAMES, REPLAY, Link  # noqa: E402


class LinkTests(unittest.TestCase):
    def test_numbers_replays_and_gaps(self) -> None:
        link = Link()
        self.assertEqual([link.take(seq) for seq in (1, 2, 2, 1, 4, 3, 4)],
                         [NEW, NEW, REPLAY, REPLAY, GAP, NEW, NEW])
        self.assertTrue(link.ack_due)
        self.assertEqual(link.ack(), 4)
        self.assertFalse(link.ack_due)

    def test_what_is_not_acknowledged_is_sent_again(self) -> None:
        link = Link()
        for number in range(5):
            self.assertEqual(link.add(b"%d" % number), number + 1)
        link.peer_has(2)
        self.assertEqual(link.unacknowledged(), [(3, b"2"), (4, b"3"), (5, b"4")])
        link.peer_has(1)
        self.assertEqual(len(link.unacknowledged()), 3)
        link.peer_has(99)
        self.assertEqual((link.unacknowledged(), link.outbox_bytes), ([], 0))

    def test_the_bound_refuses_work_and_keeps_results(self) -> None:
        link = Link()
        for _ in range(OUTBOX_FRAMES):
            self.assertFalse(link.full)
            link.add(b"x")
        self.assertTrue(link.full)
        self.assertEqual(link.add(b"result"), OUTBOX_FRAMES + 1)
        self.assertEqual(len(link.unacknowledged()), OUTBOX_FRAMES + 1)

    def test_two_ends_over_a_line_that_breaks_at_every_step(self) -> None:
        seed = random.randrange(2 ** 32)
        dice = random.Random(seed)
        one, other = Link(), Link()
        got: list[bytes] = []
        for number in range(300):
            one.add(b"%d" % number)
            lost = dice.random() < 0.5  # the connection breaks: all is offered again after an attach
            if lost:
                one.peer_has(other.received)
                for seq, payload in one.unacknowledged():
                    if dice.random() < 0.1:
                        break
                    if other.take(seq) == NEW:
                        got.append(payload)
                    if dice.random() < 0.3:
                        other.take(seq)  # a copy
        for seq, payload in one.unacknowledged():
            if other.take(seq) == NEW:
                got.append(payload)
        self.assertEqual(got, [b"%d" % number for number in range(300)], f"seed {seed}")


class OutputTests(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "log")

    def log(self, ring: int = 1000) -> albedo_output.OutputLog:
        log = albedo_output.OutputLog(self.path, ring)
        self.addCleanup(log.close)
        return log

    def test_small_logs_touch_no_disk(self) -> None:
        log = self.log()
        log.append(b"x" * albedo_output.MEMORY_BYTES)
        self.assertFalse(os.path.exists(self.path))
        self.assertEqual(log.read(5, 10), b"x" * 10)
        self.assertEqual(log.read(log.size, 10), b"")

    def test_every_byte_kept_is_the_byte_that_was_written(self) -> None:
        seed = random.randrange(2 ** 32)
        dice = random.Random(seed)
        ring = 70_001
        log = self.log(ring)
        whole = bytearray()
        while len(whole) < albedo_output.HEAD_BYTES + 3 * ring:
            piece = dice.randbytes(dice.choice((1, 100, 65536, 200_000)))
            log.append(piece)
            whole += piece
        self.assertEqual(log.size, len(whole), f"seed {seed}")
        for _ in range(300):
            offset = dice.randrange(len(whole))
            limit = dice.choice((1, 100, 100_000))
            kept = offset < albedo_output.HEAD_BYTES or offset >= len(whole) - ring
            if not kept:
                with self.assertRaises(albedo_output.Gone):
                    log.read(offset, limit)
                self.assertEqual(log.oldest(offset), len(whole) - ring)
                continue
            got = log.read(offset, limit)
            self.assertEqual(got, bytes(whole[offset:offset + len(got)]), f"seed {seed}")
            if len(got) < min(limit, len(whole) - offset):
                self.assertEqual(offset + len(got), albedo_output.HEAD_BYTES)  # before the gap, not within

    def test_a_disk_that_refuses_is_told(self) -> None:
        log = albedo_output.OutputLog("/nonexistent/log")
        log.append(b"x" * 100_000)
        log.append(b"y" * 100)
        self.assertEqual(log.size, 100_100)
        self.assertEqual(log.read(0, 10), b"x" * 10)
        with self.assertRaises(albedo_output.Gone) as caught:
            log.read(90_000, 10)
        self.assertIn("No such file", str(caught.exception))
        self.assertIn("gone", log.preview(True))

    def test_previews_tear_no_character(self) -> None:
        for shift in range(4):
            log = albedo_output.OutputLog(f"{self.path}{shift}")
            log.append(b"x" * shift + "\U0001f600".encode() * 40_000)
            for from_end in (False, True):
                text = log.preview(from_end)
                self.assertEqual(set(text) - {"x"}, {"\U0001f600"})
                self.assertLessEqual(len(text.encode()), albedo_output.PREVIEW_BYTES)
            log.close()


class JsonTests(unittest.TestCase):
    def test_whatever_python_holds_becomes_valid(self) -> None:
        import json
        deep: list = []
        for _ in range(100_000):
            deep = [deep]
        for value in ("\ud800", {"\udfff": "\ud83d\ude00"}, float("nan"), [float("inf")], 10 ** 6000, {1: {2, 3}},
                      b"\xff", deep, object(), {None: 1, True: 2}, "\0\x1f\u2028"):
            text = albedo_json.dumps(value)
            json.loads(text.decode("utf-8"), parse_constant=lambda name: self.fail(name))
            self.assertNotIn(b"\\ud", text)

    def test_what_is_no_json_is_refused(self) -> None:
        for data in (b"", b"{", b"{} {}", b"NaN", b"\xff", b"[" * 100_000, b"[1,]", b"{1:2}", b'"\n"', b"nul"):
            with self.assertRaises(ValueError, msg=data[:20]):
                albedo_json.loads(data)
        self.assertEqual(albedo_json.loads(b' {"a": [1, -2.5e3, true, null, "\\u00e9"]} '),
                         {"a": [1, -2500.0, True, None, "é"]})


if __name__ == "__main__":
    unittest.main()
