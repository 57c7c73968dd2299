#!/usr/bin/env python3
"""Writes the golden frames beside it, from a description of their own: no code of the project.

    length u32 | kernel u32 | kind u8 | seq u64 | ack u64 | payload     big-endian
"""
import json
import struct
from pathlib import Path

CELL = bytes(range(0x01, 0x11))
FRAMES = [
    # name, kernel, kind, seq, ack, payload
    ("control", 1, 1, 1, 0, b'{"t": "started", "cell": "0190abcd-1234-7fff-8000-00000000000a", "at": 1}'),
    ("output", 2, 2, 0, 7, CELL + struct.pack(">Q", 65536) + b"line\n\x00\xff\xfe"),
    ("output_empty", 2, 2, 0, 7, CELL + struct.pack(">Q", 0)),
    ("ack", 3, 3, 0, 2**63, b""),
    ("hello", 4, 4, 0, 12, b'{"protocol": 1, "ack": 12, "next": 5, "cells": []}'),
    ("refused", 5, 5, 0, 0, b'{"reason": "older attempt"}'),
    ("superseded", 6, 6, 0, 0, b'{"owner": "ab"}'),
    ("credit", 7, 7, 0, 0, b'{"cell": "0190abcd-1234-7fff-8000-00000000000a", "from": 0, "until": 65536}'),
    ("page", 8, 8, 0, 0, struct.pack(">Q", 3) + CELL + struct.pack(">QB", 10, 1) + b"tail"),
    ("query", 9, 9, 0, 0, '{"id": 1, "op": "stats", "word": "\u00fc"}'.encode()),
    ("start", 10, 32, 0, 0, b'{"run_id": "a"}'),
    ("closed", 0xFFFFFFFF, 36, 0, 0, b'{"reason": "gone", "detail": ""}'),
    ("ready", 0, 39, 0, 0, b'{"protocol": 1}'),
    ("unknown_kind", 1, 255, 2**64 - 1, 2**64 - 1, b"\x00"),
]


def main() -> None:
    folder = Path(__file__).parent
    rows = []
    for name, kernel, kind, seq, ack, payload in FRAMES:
        head = struct.pack(">IIBQQ", len(payload), kernel, kind, seq, ack)
        (folder / f"{name}.bin").write_bytes(head + payload)
        rows.append({"file": f"{name}.bin", "kernel": kernel, "kind": kind, "seq": seq, "ack": ack,
                     "payload_hex": payload.hex()})
    (folder / "manifest.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
