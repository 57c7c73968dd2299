"""GET /metrics, read by a parser as strict as Prometheus' own."""

from __future__ import annotations

import os
import re
import signal
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from harness import Daemon, HttpError, wait_until  # noqa: E402
from turn_rig import TurnTest, cells  # noqa: E402

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"')
TYPES = {"counter", "gauge", "histogram"}


def parse(text: str) -> dict[tuple[str, tuple], float]:
    """(name, sorted labels) to value. Raises AssertionError for what the format does not allow."""
    assert text.endswith("\n") and "\r" not in text
    found: dict[tuple[str, tuple], float] = {}
    kinds: dict[str, str] = {}
    family = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            assert NAME.fullmatch(family) and family not in kinds, line
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == family and kind in TYPES, line
            kinds[name] = kind
        else:
            name = NAME.match(line).group()
            rest = line[len(name):]
            base = re.sub(r"_(bucket|sum|count)$", "", name) if kinds[family] == "histogram" else name
            assert base == family, f"{line}: outside its family"
            labels = []
            if rest.startswith("{"):
                at = 1
                while True:
                    match = LABEL.match(rest, at)
                    assert match, line
                    labels.append(match.groups())
                    at = match.end()
                    if rest[at] == "}":
                        break
                    assert rest[at] == ",", line
                    at += 1
                rest = rest[at + 1:]
            assert rest.startswith(" "), line
            key = (name, tuple(sorted(labels)))
            assert key not in found and len(dict(labels)) == len(labels), f"{line}: twice"
            found[key] = float(rest[1:])
    return found


def total(samples: dict, name: str, **labels: str) -> float:
    return sum(value for (found, has), value in samples.items()
               if found == name and labels.items() <= dict(has).items())


class MetricsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.daemon = Daemon()
        self.daemon.__enter__()
        self.addCleanup(lambda: self.daemon.__exit__(None, None, None))

    def read(self) -> dict:
        return parse(self.daemon.request("GET", "/metrics").decode())

    def test_what_was_done_is_counted(self) -> None:
        session = self.daemon.session()
        self.daemon.cell(session, "1 + 1")
        self.daemon.cell(session, "1 / 0")
        self.daemon.get("/hosts/local/ping")
        with self.assertRaises(HttpError):
            self.daemon.get("/nowhere")
        samples = self.read()
        self.assertEqual(total(samples, "albedo_cells_total", status="ok"), 1)
        self.assertEqual(total(samples, "albedo_cells_total", status="error"), 1)
        self.assertEqual(total(samples, "albedo_http_requests_total", route="/sessions/:id/cells", status="200"), 2)
        self.assertEqual(total(samples, "albedo_http_requests_total", route="-", status="404"), 1)
        self.assertEqual(total(samples, "albedo_http_request_seconds_count", route="/sessions/:id/cells"), 2)
        self.assertGreaterEqual(total(samples, "albedo_host_calls_total", host="local", outcome="ok"), 1)
        self.assertEqual(total(samples, "albedo_sessions"), 1)
        self.assertEqual(total(samples, "albedo_kernels", link="attached"), 1)
        self.assertEqual(total(samples, "albedo_process_up", process="api"), 1)
        for (name, labels), value in samples.items():
            if name.endswith("_bucket") and ("le", "+Inf") in labels:
                rest = tuple(label for label in labels if label[0] != "le")
                self.assertEqual(value, samples[(name.removesuffix("_bucket") + "_count", rest)])

    def test_a_death_and_a_reattach_are_counted(self) -> None:
        session = self.daemon.session()
        self.daemon.cell(session, "x = 1")
        agent, = self.daemon.processes("albedo-hostagent")
        os.kill(agent, signal.SIGKILL)
        self.assertEqual(self.daemon.cell(session, "x")["value"], "1")
        wait_until(lambda: total(self.read(), "albedo_kernel_reattaches_total", host="local") == 1, 10, "a reattach")
        samples = self.read()
        self.assertEqual(total(samples, "albedo_process_restarts_total", process="agent", host="local"), 1)
        self.assertEqual(total(samples, "albedo_kernel_reattach_seconds_count", host="local"), 1)

    def test_labels_that_others_choose_stay_text(self) -> None:
        odd = 'a"b\\c'
        with self.assertRaises(HttpError):
            self.daemon.get("/hosts/x%22y%0Az")
        with self.assertRaises(HttpError):
            self.daemon.get(f"/sessions/{'%22'}/status")
        self.assertTrue(self.read())
        self.assertNotIn(odd, str(self.read()))

    def test_it_needs_the_token(self) -> None:
        self.daemon.token = "wrong"
        with self.assertRaises(HttpError) as refused:
            self.daemon.request("GET", "/metrics")
        self.assertEqual(refused.exception.status, 401)
        self.daemon.read_record()


class TurnMetricsTest(TurnTest):
    def test_turns_and_attempts(self) -> None:
        self.model.script([cells("1"), {"text": "done"}])
        self.prompt()
        self.idle()
        samples = parse(self.daemon.request("GET", "/metrics").decode())
        self.assertEqual(total(samples, "albedo_turns_total", outcome="completed"), 1)
        self.assertEqual(total(samples, "albedo_provider_attempts_total", profile="fake", outcome="ok"), 2)


if __name__ == "__main__":
    unittest.main()
