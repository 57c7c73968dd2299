#!/usr/bin/env python3
"""All tests of a build, one line each: CTest's programs, then the Python suites.

    tests/run.py [--long] [-k PATTERN] [--build FOLDER]

The last line is `N passed, N failed`, with `, N skipped` where something the machine lacks kept
tests from running; exits 1 when a test failed or none ran. `--long` lets the
tests that read ALBEDO_TEST_LONG do their full counts; -k keeps tests whose name contains PATTERN.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import unittest
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON_SUITES = ("tests/bundle", "tests/e2e", "tests/stress")
TEST_SECONDS = 180
LONG_TEST_SECONDS = 1200
DETAIL_LINES = 60


class Overrun(Exception):
    """Raised in a Python test that took too long, wherever it is."""


def line(passed: bool, seconds: float, name: str, detail: str = "") -> None:
    print(f"{'passed' if passed else 'FAILED'} {seconds:7.2f}s  {name}", flush=True)
    if detail:
        tail = "\n".join(detail.rstrip().splitlines()[-DETAIL_LINES:])
        print(textwrap.indent(tail, " " * 8), flush=True)


class Counts:
    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0
        self.skipped = 0

    def add(self, passed: bool) -> None:
        if passed:
            self.passed += 1
        else:
            self.failed += 1


def catch_cases(program: Path, limit: float, pattern: str, counts: Counts) -> None:
    """Run one Catch2 program and count its test cases from its own report."""
    name = program.name
    command = [str(program), "--reporter", "junit"]
    if pattern:
        command.append(f"*{pattern}*")
    began = time.monotonic()
    try:
        ended = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit)
        output, words, code = ended.stdout, ended.stderr, ended.returncode
    except subprocess.TimeoutExpired:
        output, words, code = "", f"no end after {limit:.0f} s", -1
    seconds = time.monotonic() - began
    try:
        cases = list(ElementTree.fromstring(output[output.index("<?xml"):]).iter("testcase"))
    except (ElementTree.ParseError, ValueError):
        cases = []
    bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    for case in cases:
        counts.add(case not in bad)
    crashed = code != 0 and not bad
    if crashed:
        counts.add(False)
    if cases or crashed:
        detail = "\n".join(f"{case.get('name')}: {''.join(case.itertext()).strip()}" for case in bad)
        line(not bad and not crashed, seconds, f"{name} ({len(cases)} cases)",
             detail or (f"exit {code}\n{output[-2000:]}\n{words}" if crashed else ""))


def ctest_programs(build: Path, counts: Counts, limit: float, pattern: str) -> None:
    listed = subprocess.run(
        ["ctest", "--test-dir", str(build), "--show-only=json-v1"], capture_output=True, text=True, check=True
    )
    for test in json.loads(listed.stdout)["tests"]:
        command = test.get("command") or []
        if len(command) == 1 and Path(command[0]).parent.name == "tests":
            catch_cases(Path(command[0]), limit, pattern, counts)
        elif command and pattern in test["name"] and not python_suite(command):
            began = time.monotonic()
            try:
                ended = subprocess.run(command, cwd=build, capture_output=True, text=True,
                                       errors="replace", timeout=limit)
                passed, words = ended.returncode == 0, ended.stdout + ended.stderr
            except subprocess.TimeoutExpired:
                passed, words = False, f"no end after {limit:.0f} s"
            counts.add(passed)
            line(passed, time.monotonic() - began, test["name"], "" if passed else words)


def python_suite(command: list[str]) -> bool:
    """Whether a CTest entry is one of PYTHON_SUITES, which are run and counted below."""
    return any(suite in word for word in command for suite in PYTHON_SUITES)


class Report(unittest.TestResult):
    def __init__(self, counts: Counts, limit: float) -> None:
        super().__init__()
        self.counts = counts
        self.limit = limit
        self.details: list[str] = []
        self.skip_reason = ""
        self.began = 0.0

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.details = []
        self.skip_reason = ""
        self.began = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, self.limit, 30)

    def stopTest(self, test: unittest.TestCase) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if self.skip_reason and not self.details:
            self.counts.skipped += 1
            print(f"skipped           {test.id()} ({self.skip_reason})", flush=True)
        else:
            self.counts.add(not self.details)
            line(not self.details, time.monotonic() - self.began, test.id(), "\n".join(self.details))
        super().stopTest(test)

    def addFailure(self, test, err) -> None:
        self.details.append(self._exc_info_to_string(err, test))

    def addError(self, test, err) -> None:
        self.addFailure(test, err)
        if not isinstance(test, unittest.TestCase):  # a module or class fixture
            self.counts.add(False)
            line(False, 0.0, str(test), "\n".join(self.details))

    def addSubTest(self, test, subtest, err) -> None:
        if err is not None:
            self.details.append(f"{subtest._subDescription()} {self._exc_info_to_string(err, test)}")

    def addSkip(self, test, reason) -> None:
        self.skip_reason = reason


def each(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from each(item)
        else:
            yield item


def forget(folder: Path) -> None:
    """Two suites may have modules of one name."""
    for name, module in list(sys.modules.items()):
        if Path(getattr(module, "__file__", None) or "/").parent == folder:
            del sys.modules[name]
    sys.path[:] = [place for place in sys.path if place != str(folder)]


def python_tests(counts: Counts, limit: float, pattern: str) -> None:
    def overrun(_signal: int, _frame: object) -> None:
        raise Overrun(f"the test took longer than {limit:.0f} s")

    signal.signal(signal.SIGALRM, overrun)
    for folder in PYTHON_SUITES:
        loader = unittest.TestLoader()
        found = loader.discover(str(ROOT / folder), top_level_dir=str(ROOT / folder))
        wanted = unittest.TestSuite(test for test in each(found) if pattern in test.id())
        wanted.run(Report(counts, limit))
        forget(ROOT / folder)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run all tests of a build.")
    parser.add_argument("--long", action="store_true", help="full counts for chaos, soak and fuzz tests")
    parser.add_argument("-k", metavar="PATTERN", default="", help="only tests whose name contains PATTERN")
    parser.add_argument("--build", default=str(ROOT / "build"), help="the build folder")
    options = parser.parse_args()
    build = Path(options.build).resolve()
    os.environ.setdefault("ALBEDO_BIN", str(build / "bin/albedo"))
    if options.long:
        os.environ["ALBEDO_TEST_LONG"] = "1"
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(ROOT / "tests/support"))
    limit = LONG_TEST_SECONDS if options.long else TEST_SECONDS
    counts = Counts()
    ctest_programs(build, counts, limit, options.k)
    python_tests(counts, limit, options.k)
    skipped = f", {counts.skipped} skipped" if counts.skipped else ""
    print(f"{counts.passed} passed, {counts.failed} failed{skipped}")
    return 1 if counts.failed or not counts.passed else 0


if __name__ == "__main__":
    sys.exit(main())
