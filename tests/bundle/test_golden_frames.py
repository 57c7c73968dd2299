"""The golden frames, as the bundle reads and writes them."""
import json
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bundle"))

import albedo_frames  # noqa: E402

FRAMES = ROOT / "tests" / "data" / "frames"


def golden() -> list[tuple[bytes, tuple[int, int, int, int, bytes]]]:
    rows = json.loads((FRAMES / "manifest.json").read_text())
    return [((FRAMES / row["file"]).read_bytes(),
             (row["kernel"], row["kind"], row["seq"], row["ack"], bytes.fromhex(row["payload_hex"])))
            for row in rows]


class GoldenFrames(unittest.TestCase):
    def test_written(self) -> None:
        for encoded, frame in golden():
            self.assertEqual(albedo_frames.encode(*frame), encoded)

    def test_read_in_pieces_of_any_size(self) -> None:
        stream = b"".join(encoded for encoded, _frame in golden())
        wanted = [frame for _encoded, frame in golden()]
        for size in (1, 2, 7, 24, 25, 26, 64, len(stream)):
            decoder = albedo_frames.Decoder()
            found = []
            for at in range(0, len(stream), size):
                decoder.feed(stream[at:at + size])
                while (frame := decoder.next()) is not None:
                    found.append((*frame[:4], bytes(frame[4])))
            self.assertEqual(found, wanted, f"pieces of {size}")


if __name__ == "__main__":
    unittest.main()
