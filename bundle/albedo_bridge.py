"""The bridge's program: one per connection, carries frames between a hostagent and kernels here.

    python3 -I -S albedo_bridge.py NONCE    (docs/PROTOCOL.md, "Bridge")
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import albedo_blank  # noqa: E402

blank = albedo_blank.start_blank()  # before anything else: it imports while we do

import albedo_bridge_loop  # noqa: E402

if __name__ == "__main__":
    albedo_bridge_loop.Bridge(sys.argv[1], blank).run()
