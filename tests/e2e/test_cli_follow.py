"""The CLI against a scripted daemon: broken streams, changed tokens and ports, gaps, odd text.

The stand-in holds the home's lock as a supervisor does and serves what one test says, so that each
fault comes at an exact byte. The real daemon's part is in test_cli.py.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from harness import albedo_program  # noqa: E402

Stream = Callable[[int, "Answer"], None]


class Answer(BaseHTTPRequestHandler):
    """One connection to the stand-in; `fake` is the FakeDaemon."""

    protocol_version = "HTTP/1.1"
    fake: FakeDaemon

    def json(self, value: object, status: int = 200) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def event(self, name: str, data: object, event_id: int | None = None) -> None:
        head = "" if event_id is None else f"id: {event_id}\n"
        self.wfile.write(f"{head}event: {name}\ndata: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()

    def output(self, offset: int, text: str) -> None:
        self.event("output", {"offset": offset, "text": text}, offset + len(text.encode()))

    def refused(self) -> bool:
        if self.headers["Authorization"] == f"Bearer {self.fake.token}":
            return False
        self.json({"error": "wrong token"}, 401)
        return True

    def do_GET(self) -> None:
        if self.refused():
            return
        if self.path == "/sessions":
            self.json([{"id": "s-1", "workspace": str(self.fake.home)}])
        elif self.path == "/sessions/s-1/cells/c-1/stream":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            at = int(self.headers.get("Last-Event-ID") or 0)
            self.fake.streams.append(at)
            self.fake.stream(at, self)
        elif self.path in self.fake.answers:
            self.json(*self.fake.answers[self.path])
        else:
            self.json({"error": f"no {self.path}"}, 404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.refused():
            return
        self.fake.posts.append((self.path, body))
        if self.path == "/sessions/s-1/cells" and self.path not in self.fake.answers:
            self.json({"cellId": "c-1", "operationId": body["operationId"]}, 202)
        else:
            self.json(*self.fake.answers.get(self.path, ({"error": f"no {self.path}"}, 404)))

    def log_message(self, *_args: object) -> None:
        pass


class FakeDaemon:
    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="albedo-t-")
        self.home = Path(self.folder.name).resolve()
        self.token = "first"
        self.streams: list[int] = []
        self.posts: list[tuple[str, dict]] = []
        self.answers: dict[str, tuple[object, int]] = {}
        self.stream: Stream = lambda at, answer: answer.event("done", {"status": "ok", "value": None})

    def __enter__(self) -> FakeDaemon:
        self.lock = open(self.home / "daemon.lock", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.serve()
        self.record()
        return self

    def __exit__(self, *_failure: object) -> None:
        self.close()
        self.lock.close()
        self.folder.cleanup()

    def serve(self) -> None:
        handler = type("Handler", (Answer,), {"fake": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def record(self) -> None:
        fresh = self.home / "daemon.json.new"
        fresh.write_text(json.dumps({"pid": os.getpid(), "port": self.server.server_port, "token": self.token}))
        fresh.rename(self.home / "daemon.json")

    def albedo(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([str(albedo_program()), *words], capture_output=True, text=True, timeout=60,
                              cwd=self.home, env={**os.environ, "ALBEDO_HOME": str(self.home)})


class Follow(unittest.TestCase):
    def follow(self, stream: Stream, *words: str) -> tuple[FakeDaemon, subprocess.CompletedProcess]:
        with FakeDaemon() as fake:
            fake.stream = stream
            return fake, fake.albedo("exec", *(words or ("x",)))

    def test_a_stream_broken_after_every_event_goes_on_at_the_byte(self) -> None:
        lines = [f"zeile {i} grün\n" for i in range(30)]
        offsets = [0]
        for text in lines:
            offsets.append(offsets[-1] + len(text.encode()))

        def stream(at: int, answer: Answer) -> None:
            index = offsets.index(at)
            if index == len(lines):
                answer.event("done", {"status": "ok", "value": "'end'"}, at)
            else:
                answer.output(at, lines[index])

        fake, ended = self.follow(stream)
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(ended.stdout, "".join(lines) + "'end'\n")
        self.assertEqual(fake.streams, offsets)
        self.assertEqual(len(fake.posts), 1)

    def test_what_was_printed_is_not_printed_again(self) -> None:
        def stream(at: int, answer: Answer) -> None:
            answer.output(0, "0123456789")
            answer.output(5, "56789abc")
            answer.output(3, "345")
            answer.event("done", {"status": "ok", "value": None})

        self.assertEqual(self.follow(stream)[1].stdout, "0123456789abc")

    def test_a_gap_is_named_never_silent(self) -> None:
        def stream(at: int, answer: Answer) -> None:
            answer.output(0, "a\n")
            answer.output(1000, "b\n")
            answer.event("done", {"status": "ok", "value": None})

        ended = self.follow(stream)[1]
        self.assertEqual(ended.stdout, "a\nb\n")
        self.assertIn("998 bytes of output are no longer kept", ended.stderr)

    def test_a_daemon_that_came_back_elsewhere_with_another_token(self) -> None:
        def stream(at: int, answer: Answer) -> None:
            if at == 0:
                answer.output(0, "before\n")
                answer.fake.token = "second"
                threading.Thread(target=move, args=(answer.fake,)).start()
            else:
                answer.output(at, "after\n")
                answer.event("done", {"status": "ok", "value": None})

        def move(fake: FakeDaemon) -> None:
            fake.close()
            fake.serve()
            fake.record()

        ended = self.follow(stream)[1]
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "before\nafter\n", ""))

    def test_a_token_changed_under_the_same_port(self) -> None:
        with FakeDaemon() as fake:
            fake.token = "second"  # daemon.json still says the first
            timer = threading.Timer(0.5, fake.record)
            timer.start()
            ended = fake.albedo("exec", "x")
            timer.join()
        self.assertEqual((ended.returncode, len(fake.posts)), (0, 1), ended.stderr)

    def test_a_part_that_is_being_started_is_waited_for(self) -> None:
        with FakeDaemon() as fake:
            fake.answers["/sessions/s-1/cells"] = ({"error": "starting", "code": "unavailable"}, 503)
            timer = threading.Timer(0.5, fake.answers.clear)
            timer.start()
            ended = fake.albedo("exec", "x")
            timer.join()
        self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(len({body["operationId"] for _, body in fake.posts}), 1)
        self.assertGreater(len(fake.posts), 1)

    def test_every_end_of_a_cell_has_its_code_and_words(self) -> None:
        raised = {"name": "KeyError", "message": "'k'", "traceback": "Traceback\nKeyError: 'k'\n"}
        rows = (
            ({"status": "ok", "value": "1"}, 0, "1\n", ""),
            ({"status": "error", "value": None, "error": raised}, 1, "", "Traceback\nKeyError: 'k'\n"),
            ({"status": "error", "error": {"name": "WorkerEnded", "message": "exit 3"}}, 1, "", "WorkerEnded: exit 3\n"),
            ({"status": "interrupted", "error": None}, 130, "", ""),
            ({"status": "interrupted", "error": {"name": "TimeoutError", "message": "too long", "traceback": "at line 1"}},
             130, "", "at line 1\nTimeoutError: too long\n"),
            ({"status": "lost"}, 1, "", "albedo: the kernel is gone, and the cell with it; what it did is not known\n"),
        )
        for result, code, out, err in rows:
            with self.subTest(result=result):
                ended = self.follow(lambda at, answer, result=result: answer.event("done", result))[1]
                self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (code, out, err))
                quiet = self.follow(lambda at, answer, result=result: answer.event("done", result), "--json", "x")[1]
                self.assertEqual((quiet.returncode, json.loads(quiet.stdout)), (code, result))

    def test_a_broken_result_is_an_error_not_a_crash(self) -> None:
        def stream(at: int, answer: Answer) -> None:
            answer.wfile.write(b"event: done\ndata: {broken\n\n")

        ended = self.follow(stream)[1]
        self.assertEqual(ended.returncode, 1)
        self.assertIn("no JSON", ended.stderr)


class Hosts(unittest.TestCase):
    def test_a_hosts_words_cannot_steer_the_terminal(self) -> None:
        evil = "\x1b]0;owned\x07 \x9b31m \u202e line\nnext"
        shown = "\\x1b]0;owned\\x07 \\xc2\\x9b31m \\xe2\\x80\\xae line\\nnext"
        with FakeDaemon() as fake:
            fake.answers = {
                "/hosts": ({"hosts": [{"host": "gpu", "source": "recent", "state": "ready", "detail": evil}]}, 200),
                "/hosts/gpu": ({"host": "gpu", "state": "ready", "detail": evil}, 200),
                "/hosts/gpu/agent": ({"agent": {"pid": 0, "state": evil, "last_death": evil}}, 200),
                "/hosts/gpu/flight": ({"events": [{"wall_ms": 1, "text": evil}]}, 200),
                "/hosts/gpu/restart": ({"error": evil}, 500),
            }
            for words in (("hosts",), ("hosts", "show", "gpu"), ("hosts", "why", "gpu")):
                with self.subTest(words=words):
                    ended = fake.albedo(*words)
                    self.assertIn(shown, ended.stdout)
                    self.assertNotRegex(ended.stdout, "[\x1b\x07\x9b\u202e]")
            refused = fake.albedo("hosts", "restart", "gpu")
            self.assertEqual(refused.returncode, 1)
            self.assertNotRegex(refused.stderr, "[\x1b\x07\x9b\u202e]")

    def test_a_host_that_is_not_ready_is_exit_code_4_with_the_next_step(self) -> None:
        for state, step in (("needs_auth", "login"), ("unreachable", "why"), ("unsupported", "why")):
            with self.subTest(state=state), FakeDaemon() as fake:
                fake.answers["/sessions"] = ({"error": "words of ssh", "host": "gpu", "state": state}, 503)
                ended = fake.albedo("exec", "gpu:/data", "1")
                self.assertEqual(ended.returncode, 4)
                self.assertIn("gpu: words of ssh", ended.stderr)
                self.assertIn(f"next: albedo hosts {step} gpu", ended.stderr)

    def test_steering_is_sent_once(self) -> None:
        with FakeDaemon() as fake:
            for action in ("restart", "stop", "quarantine", "release"):
                fake.answers[f"/hosts/a%40b/{action}"] = ({"ok": True}, 200)
                self.assertEqual(fake.albedo("hosts", action, "a@b").returncode, 0)
            self.assertEqual([path for path, _ in fake.posts],
                             [f"/hosts/a%40b/{action}" for action in ("restart", "stop", "quarantine", "release")])


if __name__ == "__main__":
    unittest.main()
