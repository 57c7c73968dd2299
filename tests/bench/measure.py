"""Shared by the benchmarks: rows, percentiles, interleaving, a raw HTTP client, the rivals.

A row is `group, name, median, p99, unit, n, note`, tab separated. What is compared is measured in
one run, in random order each round, since absolute numbers of two runs on a shared machine do not
compare. p99 of fewer than 100 samples is nearly the maximum.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from harness import Daemon, uuid7  # noqa: E402

QUICK = "--quick" in sys.argv
PYTHON = "/usr/bin/python3"
os.environ["PATH"] = f"/usr/bin:{os.environ['PATH']}"  # kernels run the Python that rivals run


def percentile(samples: list[float], percent: float) -> float:
    ordered = sorted(samples)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.3g}"


def row(group: str, name: str, samples: list[float], unit: str, note: str = "") -> None:
    print("\t".join((group, name, number(percentile(samples, 50)), number(percentile(samples, 99)),
                     unit, str(len(samples)), note)), flush=True)


def at_least(ours: list[float], theirs: list[float], whose: str, target: float) -> str:
    """The same where more is better."""
    value = percentile(ours, 50) / percentile(theirs, 50)
    return f"{value:.2f}x {whose} (target {target:g}x: {'met' if value >= target else 'MISSED'})"


def ratio(ours: list[float], theirs: list[float], whose: str, target: float) -> str:
    """A note: our median over theirs, beside the target."""
    value = percentile(ours, 50) / percentile(theirs, 50)
    return f"{value:.2f}x {whose} (target {target:g}x: {'met' if value <= target else 'MISSED'})"


def interleave(rounds: int, cases: dict[str, Callable[[], float | None]], warmup: int = 3) -> dict[str, list[float]]:
    """Seconds of each case over all rounds; a case returns its own time, or None to be timed."""
    samples: dict[str, list[float]] = {name: [] for name in cases}
    for index in range(rounds + warmup):
        for name in random.sample(list(cases), len(cases)):
            began = time.perf_counter()
            own = cases[name]()
            took = time.perf_counter() - began if own is None else own
            if index >= warmup:
                samples[name].append(took)
    return samples


def scaled(samples: list[float], factor: float) -> list[float]:
    return [value * factor for value in samples]


class RawHttp:
    """One keep-alive connection and prebuilt requests: what the daemon costs, not the client."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.socket = socket.create_connection(("127.0.0.1", daemon.port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def request(self, method: str, path: str, body: object = None) -> object:
        content = b"" if body is None else json.dumps(body).encode()
        head = (f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.daemon.port}\r\n"
                f"Authorization: Bearer {self.daemon.token}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(content)}\r\n\r\n").encode()
        self.socket.sendall(head + content)
        got = b""
        while b"\r\n\r\n" not in got:
            got += self._receive()
        head, _, rest = got.partition(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n")
                      if line.lower().startswith(b"content-length:"))
        while len(rest) < length:
            rest += self._receive()
        status = int(head.split(b" ", 2)[1])
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {rest!r}")
        return json.loads(rest)

    def count_output(self, session: str, cell: str) -> int:
        """Follows a cell's output to its end; its bytes."""
        self.socket.sendall((f"GET /sessions/{session}/cells/{cell}/output?follow=true HTTP/1.1\r\n"
                             f"Host: 127.0.0.1:{self.daemon.port}\r\n"
                             f"Authorization: Bearer {self.daemon.token}\r\n\r\n").encode())
        reader = self.socket.makefile("rb", buffering=1 << 20)
        if b" 200 " not in reader.readline():
            raise RuntimeError("no output to follow")
        while reader.readline() not in (b"\r\n", b""):
            pass
        total, piece = 0, memoryview(bytearray(1 << 20))
        while size := int(reader.readline(), 16):
            total += size
            while size:
                size -= reader.readinto(piece[:size])
            reader.readline()
        reader.readline()
        return total

    def _receive(self) -> bytes:
        piece = self.socket.recv(65536)
        if not piece:
            raise ConnectionError("the daemon closed the connection")
        return piece

    def cell(self, session: str, code: str) -> dict:
        return self.request("POST", f"/sessions/{session}/cells?wait=true",
                            {"code": code, "operationId": uuid7()})

    def close(self) -> None:
        self.socket.close()


FRAMED = r"""
import json, os, struct
def exactly(n):
    b = os.read(0, n)
    while len(b) < n: b += os.read(0, n - len(b))
    return b
names = {}
while True:
    head = os.read(0, 4)
    if not head: break
    request = json.loads(exactly(struct.unpack('>I', head)[0]))
    answer = json.dumps({'value': repr(eval(request['code'], names))}).encode()
    os.write(1, struct.pack('>I', len(answer)) + answer)
"""


class FramedPipe:
    """The floor for a persistent Python: a frame in, `eval`, a frame out, over two pipes.

    `reach`: words in front of its command line, those of an ssh call; then it is one quoted word."""

    def __init__(self, reach: tuple[str, ...] = ()) -> None:
        command = [PYTHON, "-I", "-c", FRAMED]
        self.child = subprocess.Popen([*reach, shlex.join(command)] if reach else command,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def eval(self, code: str) -> str:
        content = json.dumps({"code": code}).encode()
        os.write(self.child.stdin.fileno(), struct.pack(">I", len(content)) + content)
        size, = struct.unpack(">I", self.child.stdout.read(4))
        got = b""
        while len(got) < size:
            got += self.child.stdout.read(size - len(got))
        return json.loads(got)["value"]

    def close(self) -> None:
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait(10)


def pss_kib(pid: int) -> int:
    for text in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if text.startswith("Pss:"):
            return int(text.split()[1])
    raise RuntimeError(f"no Pss of {pid}")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
