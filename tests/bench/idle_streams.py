#!/usr/bin/python3
"""Many idle event streams: how fast they open, what each costs, and what others feel of them."""

import socket
import time

from measure import QUICK, Daemon, RawHttp, cpu_seconds, pss_kib, ratio, row, scaled

GROUP = "idle event streams"
STREAMS = 100 if QUICK else 500
IDLE_SECONDS = 3 if QUICK else 10


def open_stream(daemon: Daemon, session: str) -> socket.socket:
    stream = socket.create_connection(("127.0.0.1", daemon.port), timeout=30)
    stream.sendall(f"GET /sessions/{session}/stream HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n"
                   f"Authorization: Bearer {daemon.token}\r\n\r\n".encode())
    return stream


def answered(stream: socket.socket) -> bool:
    return stream.recv(65536).startswith(b"HTTP/1.1 200")


def healths(raw: RawHttp, count: int) -> list[float]:
    samples = []
    for _ in range(count):
        began = time.perf_counter()
        raw.request("GET", "/sessions")
        samples.append(time.perf_counter() - began)
    return samples


def main() -> None:
    with Daemon() as daemon:
        session = daemon.session()
        raw = RawHttp(daemon)
        api, = daemon.processes("albedo-api")
        alone = healths(raw, 200)
        before = pss_kib(api)
        began = time.perf_counter()
        streams = [open_stream(daemon, session) for _ in range(STREAMS)]
        open_all = time.perf_counter() - began
        good = sum(map(answered, streams))
        row(GROUP, f"{STREAMS} streams opened", [open_all * 1e3], "ms", f"{good} of {STREAMS} answered")
        row(GROUP, "memory of one", [(pss_kib(api) - before) / STREAMS], "KiB PSS")
        busy = cpu_seconds(api)
        time.sleep(IDLE_SECONDS)
        row(GROUP, "all of them idle", [(cpu_seconds(api) - busy) / IDLE_SECONDS * 100], "% of a core")
        beside = healths(raw, 200)
        row(GROUP, "another request, alone", scaled(alone, 1e6), "us")
        row(GROUP, "another request, beside them", scaled(beside, 1e6), "us", ratio(beside, alone, "alone", 1.2))
        for stream in streams:
            stream.close()
        raw.close()


if __name__ == "__main__":
    main()
