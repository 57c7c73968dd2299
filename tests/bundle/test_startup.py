"""What our programs on a host load before they answer: each module there is waited for by a person."""

import os
import subprocess
import sys
import unittest

BUNDLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bundle")
# Each costs as much as half of Python's own start, and none is needed to begin.
HEAVY = ("typing", "collections", "re", "enum", "functools", "dataclasses", "subprocess", "signal", "socket",
         "selectors", "asyncio", "json", "threading", "logging", "inspect", "ast", "traceback", "pickle", "urllib")


class StartupTest(unittest.TestCase):
    def loaded(self, statements: str) -> set:
        code = f"import sys; sys.path.insert(0, {BUNDLE!r}); {statements}; print(*sys.modules)"
        done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=30,
                              check=True)
        return set(done.stdout.split())

    def test_nothing_heavy_is_loaded_to_begin(self) -> None:
        begins = {"bridge": "import albedo_bridge_loop", "keeper": "import albedo_keeper",
                  "worker": "import albedo_worker", "ladder": "import albedo_signal",
                  "list": "import albedo_calls; albedo_calls.handle({'op': 'list', 'path': '/'})"}
        for program, statements in begins.items():
            with self.subTest(program):
                self.assertEqual(self.loaded(statements) & set(HEAVY), set())


if __name__ == "__main__":
    unittest.main()
