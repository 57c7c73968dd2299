"""The process group of a job: who is in it, and its end, verified.

A number that was given away again hits nobody: members count only when they are of this process's
session and no older than the job.
"""
from __future__ import annotations

import _signal
import os
import time

import albedo_loop
import albedo_run_dir

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable

TERM_SECONDS = 0.25
KILL_SECONDS = 2.0
LOOK_SECONDS = 0.02

GONE, SURVIVED = "gone", "SURVIVED"


def members(group: int, since: str, spare: bool = False) -> list:
    """Live processes of the group. With `spare` not those whose parent left it: one that is no member
    and started after `since`, the group's own start (an ssh master that stays, and its proxy).

    Linux; elsewhere the group's number stands for all in it."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return [group] if _group_is_there(group) else []
    session, found = os.getsid(0), []
    oldest = int(since or 0)
    for name in names:
        process = albedo_run_dir.process(int(name)) if name.isdigit() else None
        if process is None or process.group != group or process.session != session or int(process.start) < oldest:
            continue
        if spare:
            parent = albedo_run_dir.process(process.parent)
            if parent is not None and parent.group != group and int(parent.start) > oldest:
                continue
        found.append(int(name))
    return found


def _group_is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
        return True
    except OSError:
        return False


def signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except OSError:
        pass


class Ending:
    """TERM, 0.25 s, KILL, then looks for 2 s: `on_end("gone" | "SURVIVED", pids)` once.

    `leader_there()` tells whether the first process was not waited for yet, so that the number is its."""

    def __init__(self, loop: albedo_loop.Loop, group: int, since: str, leader_there: Callable,
                 on_end: Callable, spare: bool = False) -> None:
        self._loop = loop
        self._group, self._since, self._spare = group, since, spare
        self._leader_there = leader_there
        self._on_end = on_end
        self._deadline = time.monotonic() + TERM_SECONDS
        self._killed = False
        self._signal(_signal.SIGTERM)
        self._look()

    def _members(self) -> list:
        return members(self._group, self._since, self._spare)

    def _signal(self, number: int) -> None:
        if self._leader_there():
            signal_group(self._group, number)
            return
        for pid in self._members():
            try:
                os.kill(pid, number)
            except OSError:
                pass

    def _look(self) -> None:
        there = [] if self._leader_there() else self._members()
        if not there and not self._leader_there():
            self._on_end(GONE, [])
            return
        if time.monotonic() >= self._deadline:
            if self._killed:
                self._on_end(SURVIVED, there or [self._group])
                return
            self._killed = True
            self._deadline = time.monotonic() + KILL_SECONDS
            self._signal(_signal.SIGKILL)
        self._loop.after(LOOK_SECONDS, self._look)
