"""A bridge as a test's own child, and a small api behind it that numbers frames as the real one does.

Everything lives in a temporary home with its own copy of the bundle; close() ends every kernel by the
ladder and fails the test when a process of the home is left.
"""
from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

BUNDLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bundle")
sys.path.insert(0, BUNDLE)

import albedo_frames as frames  # noqa: E402

DEADLINE = 30.0
DIGEST = "0123456789abcdef"


class Home:
    """A temporary home with a staged bundle; its runs, and its end."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="albedo-test-")
        self.bundle = os.path.join(self.path, ".albedo-remote", DIGEST)
        os.makedirs(self.bundle)
        for name in os.listdir(BUNDLE):
            if name.startswith("albedo_") and name.endswith(".py"):
                shutil.copy2(os.path.join(BUNDLE, name), self.bundle)
        self.folder = os.path.join(self.path, "project")
        os.mkdir(self.folder)
        self.bridges: list[Bridge] = []

    def run(self, run_id: str) -> str:
        return os.path.join(self.path, ".albedo-remote", "run", run_id)

    def bridge(self, env: dict | None = None) -> "Bridge":
        bridge = Bridge(self, env)
        self.bridges.append(bridge)
        return bridge

    def processes(self) -> list[int]:
        """Live processes that name this home in their arguments or environment."""
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    words = file.read()
                with open(f"/proc/{name}/environ", "rb") as file:
                    words += file.read()
                with open(f"/proc/{name}/stat", "rb") as file:
                    state = file.read().rsplit(b")", 1)[1].split()[0]
            except OSError:
                continue
            if self.path.encode() in words and state != b"Z":
                found.append(int(name))
        return found

    def ladder(self, run: str) -> dict:
        """What albedo_signal.py says of ending that run directory."""
        done = subprocess.run([sys.executable, "-I", "-S", os.path.join(self.bundle, "albedo_signal.py")],
                              input=json.dumps({"run": run}).encode(), stdout=subprocess.PIPE, timeout=DEADLINE)
        return json.loads(done.stdout)

    def close(self) -> list[int]:
        """Ends everything; processes that would not go."""
        for bridge in self.bridges:
            bridge.close()
        runs = os.path.join(self.path, ".albedo-remote", "run")
        for name in os.listdir(runs) if os.path.isdir(runs) else []:
            self.ladder(os.path.join(runs, name))
        deadline = time.monotonic() + 3
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.path, ignore_errors=True)
        return left


class Bridge:
    def __init__(self, home: Home, env: dict | None) -> None:
        self.home = home
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", os.path.join(home.bundle, "albedo_bridge.py"), "nonce1"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
            env={**os.environ, "HOME": home.path, **(env or {})})
        self._decoder = frames.Decoder()
        self.queues: dict[int, list] = {}
        self._text = b""
        marker = b"\nalbedo-bridge nonce1\n"
        while marker not in self._text:
            self._text += self._read(DEADLINE)
        self._decoder.feed(self._text.split(marker, 1)[1])
        self.ready = json.loads(self.next(0)[3])
        self._calls = 0

    def _read(self, seconds: float) -> bytes:
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise TimeoutError("the bridge said nothing")
        piece = os.read(self.process.stdout.fileno(), 1 << 18)
        if not piece:
            raise EOFError("the bridge ended")
        return piece

    def next(self, number: int, seconds: float = DEADLINE):
        """The next frame of that kernel as (kind, seq, ack, payload). Raises TimeoutError, EOFError."""
        deadline = time.monotonic() + seconds
        queue = self.queues.setdefault(number, [])
        while not queue:
            while (frame := self._decoder.next()) is not None:
                self.queues.setdefault(frame[0], []).append(frame[1:])
            if queue:
                break
            self._decoder.feed(self._read(max(0.0, deadline - time.monotonic())))
        return queue.pop(0)

    def send(self, number: int, kind: int, payload: bytes | dict = b"", seq: int = 0, ack: int = 0) -> None:
        if isinstance(payload, dict):
            payload = json.dumps(payload).encode()
        data = memoryview(frames.encode(number, kind, seq, ack, payload))
        while data:
            data = data[os.write(self.process.stdin.fileno(), data):]

    def call(self, **question) -> dict:
        self._calls += 1
        self.send(0, frames.CALL, {"id": self._calls, **question})
        while True:
            kind, seq, _ack, payload = self.next(0)
            if kind == frames.ANSWER and seq == self._calls:
                return json.loads(payload)

    def kill(self) -> None:
        self.process.kill()
        self.close()

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if not pipe.closed:
                pipe.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Closed(Exception):
    """The attachment ended; `reason` and `detail` as the bridge says."""

    def __init__(self, kind: int, message: dict) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
        self.reason = message.get("reason", "")


class Kernel:
    """What the api knows of one kernel: numbers, results, output. attach() may be called again and again."""

    def __init__(self, home: Home, run_id: str | None = None) -> None:
        self.home = home
        self.run_id = run_id or f"r{uuid.uuid4().hex[:12]}"
        self.run = home.run(self.run_id)
        self.token = uuid.uuid4().hex
        self.owner = "owner-1"
        self.attempt = 0
        self.next_seq = 1
        self.received = 0
        self.outbox: list[tuple[int, dict]] = []
        self.messages: list[dict] = []
        self.done: dict[str, dict] = {}
        self.done_count: dict[str, int] = {}
        self.output: dict[str, bytearray] = {}
        self.output_from: dict[str, int] = {}
        self.pages: list = []
        self.hello: dict = {}
        self.calls = 0
        self.bridge: Bridge | None = None
        self.number = 0

    def attach_request(self, **more) -> dict:
        self.attempt += 1
        return {"token": self.token, "owner": self.owner, "attempt": self.attempt, "ack": self.received,
                "grace": 30, "credits": [], **more}

    def _use(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self.number = 1 + max([0, *bridge.queues])
        bridge.queues.setdefault(self.number, [])
        self.output_from.clear()

    def start(self, bridge: Bridge, attach: dict | None = None, **more) -> "Kernel":
        self._use(bridge)
        bridge.send(self.number, frames.START, {
            "run_id": self.run_id, "folder": self.home.folder, "session": "s1", "token": self.token,
            "grace": 30, "login": False, "settings": {}, "attach": self.attach_request(**(attach or {})), **more})
        self._greet()
        return self

    def attach(self, bridge: Bridge, **more) -> "Kernel":
        self._use(bridge)
        bridge.send(self.number, frames.OPEN, {"run": self.run, "attach": self.attach_request(**more)})
        self._greet()
        return self

    def _greet(self) -> None:
        kind, _seq, _ack, payload = self.bridge.next(self.number)
        if kind != frames.OPENED:
            raise Closed(kind, json.loads(payload))
        self.run = json.loads(payload)["run"]
        kind, _seq, _ack, payload = self.bridge.next(self.number)
        if kind != frames.HELLO:
            raise Closed(kind, json.loads(payload))
        self.hello = json.loads(payload)
        self.outbox = [item for item in self.outbox if item[0] > self.hello["ack"]]
        for seq, message in self.outbox:
            self.bridge.send(self.number, frames.CONTROL, message, seq, self.received)
        self.next_seq = max(self.next_seq, self.hello["ack"] + 1)

    def tell(self, **message) -> None:
        seq = self.next_seq
        self.next_seq += 1
        self.outbox.append((seq, message))
        self.bridge.send(self.number, frames.CONTROL, message, seq, self.received)

    def execute(self, code: str, cell: str | None = None, **more) -> str:
        cell = cell or str(uuid.uuid4())
        self.tell(t="execute", cell=cell, code=code, credit=65536, **more)
        return cell

    def step(self, seconds: float = DEADLINE):
        """Takes one frame; numbered JSON is returned, kept and acknowledged."""
        kind, seq, ack, payload = self.bridge.next(self.number, seconds)
        self.outbox = [item for item in self.outbox if item[0] > ack]
        if kind in (frames.CLOSED, frames.REFUSED, frames.SUPERSEDED):
            raise Closed(kind, json.loads(payload))
        if kind == frames.OUTPUT:
            cell = str(uuid.UUID(bytes=payload[:16]))
            offset = int.from_bytes(payload[16:24], "big")
            expected = self.output_from.get(cell)
            if expected is not None and offset != expected:
                raise AssertionError(f"output at {offset}, expected {expected}")
            self.output_from[cell] = offset + len(payload) - 24
            self.output.setdefault(cell, bytearray()).extend(payload[24:])
        elif kind in (frames.PAGE, frames.QUERY):
            self.pages.append(payload)
        elif kind == frames.CONTROL:
            if seq <= self.received:
                return None
            if seq != self.received + 1:
                raise AssertionError(f"frame {seq} after {self.received}")
            self.received = seq
            message = json.loads(payload.decode("utf-8"))
            self.messages.append(message)
            if message["t"] == "done":
                self.done[message["cell"]] = message
                self.done_count[message["cell"]] = self.done_count.get(message["cell"], 0) + 1
                self.bridge.send(self.number, frames.ACK, b"", 0, self.received)
            return message
        return None

    def wait(self, cell: str, seconds: float = DEADLINE) -> dict:
        deadline = time.monotonic() + seconds
        while cell not in self.done:
            self.step(max(0.0, deadline - time.monotonic()))
        return self.done[cell]

    def wait_for(self, kind: str, seconds: float = DEADLINE, **fields) -> dict:
        """The next message of that kind, from those not looked at by wait_for before."""
        deadline = time.monotonic() + seconds
        seen = 0
        while True:
            for message in self.messages[seen:]:
                if message["t"] == kind and all(message.get(key) == value for key, value in fields.items()):
                    return message
            seen = len(self.messages)
            self.step(max(0.0, deadline - time.monotonic()))

    def cell(self, code: str, seconds: float = DEADLINE, **more) -> dict:
        return self.wait(self.execute(code, **more), seconds)

    def answer_calls(self, answer) -> None:
        """Answers calls that have come: answer(method, args) gives the value."""
        for message in self.messages:
            if message["t"] == "call" and message["call"] > self.calls:
                self.calls = message["call"]
                self.tell(t="answer", call=message["call"], ok=True, value=answer(message["method"], message["args"]))
