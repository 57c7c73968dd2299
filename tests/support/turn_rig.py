"""Turns against a strict fake model: a daemon whose only provider is a FakeProvider."""

from __future__ import annotations

import http.client
import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fake_provider import FakeProvider  # noqa: E402
from harness import Daemon, HttpError, uuid7, wait_until  # noqa: E402


def cells(*codes: str) -> dict:
    """The model calls `python` once per code, with ids that every answer uses again."""
    return {"calls": [[f"call-{at + 1}", {"code": code}] for at, code in enumerate(codes)]}


def notes_of(request: dict) -> str:
    """What a request tells of since the last one."""
    _, _, told = request["body"]["instructions"].partition("# Since your last request")
    return told


class TurnTest(unittest.TestCase):
    protocol = "responses"
    environment: dict[str, str] = {}  # more of the daemon's
    environment: dict[str, str] = {}  # more of it for the daemon

    def setUp(self) -> None:
        self.model = FakeProvider()
        self.addCleanup(self.model.close)
        self.daemon = Daemon(start=False)
        self.daemon.__enter__()
        self.addCleanup(self.end_daemon)
        self.daemon.environment.update(self.environment)
        (self.daemon.home / "config.json").write_text(json.dumps({
            "active": "fake",
            "providers": {"fake": {"baseUrl": self.model.url, "model": "m", "apiKey": "fixture-key",
                                   "protocol": self.protocol}},
        }))
        self.daemon.environment.update(self.environment)
        self.daemon.boot()
        self.session = self.daemon.session()

    def end_daemon(self) -> None:
        self.daemon.__exit__(None)

    def prompt(self, content: str = "go", session: str = "", **more: object) -> str:
        body = {"operationId": uuid7(), "content": content, **more}
        return self.daemon.post(f"/sessions/{session or self.session}/events", body)["operationId"]

    def status(self, session: str = "") -> dict:
        return self.daemon.get(f"/sessions/{session or self.session}/status")

    def idle(self, session: str = "", seconds: float = 60) -> None:
        """Over restarts of whatever answers."""

        def is_idle() -> bool:
            try:
                return not self.status(session)["running"]
            except (OSError, http.client.HTTPException, ValueError):
                return False
            except HttpError as failure:
                if failure.status == 503:
                    return False
                raise

        wait_until(is_idle, seconds, "the end of the turn")

    def events(self, session: str = "") -> list[dict]:
        path = f"/sessions/{session or self.session}/history?rows=1000"
        page = self.daemon.get(path)
        found = page["events"]
        while page["more"]:
            page = self.daemon.get(f"{path}&before={page['before']}")
            found = page["events"] + found
        return found

    def results(self, session: str = "") -> list[dict]:
        return [json.loads(event["result"]) for event in self.events(session)
                if event["type"] == "tool"]

    def assert_fair(self) -> None:
        """The model never got a request that breaks its protocol; each call has one result."""
        self.assertEqual([request["problem"] for request in self.model.requests
                          if request["problem"]], [])
        events = self.events()
        calls = sorted(event["row"] for event in events if event["type"] == "tool_call")
        self.assertEqual(sorted(event["call"] for event in events if event["type"] == "tool"), calls)
