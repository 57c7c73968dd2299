"""Jobs that outlive kernels, as a keeper sees them: one directory each, found again by the session's
next kernel on this host.

    <root>/jobs/<session>/<number>/     job.json (written before it runs), output, output.size,
                                        exit.json (by rename, at its end), seen (its end was read)

Each is looked after by a process of its own (albedo_kept.py), so nothing here can be lost with a keeper.
One without `exit.json` whose processes are gone is `lost`: how it ended is not known, and it is never
told as a success.
"""
from __future__ import annotations

import _signal
import _socket
import os
import sys
import time

import albedo_bundle
import albedo_job
import albedo_job_group
import albedo_json
import albedo_kept
import albedo_kept_log
import albedo_loop
import albedo_run_dir
import albedo_spawn

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable

JOBS_FOLDER = "jobs"
SEEN_FILE = "seen"
ANSWER_SECONDS = 10.0
KEPT_SECONDS = 14 * 86400.0
MAX_LISTED = 256
STOP_SECONDS = 4.0  # TERM, KILL and its verification by the job's own process
LOOK_SECONDS = 0.05
KEY_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"


def folder_of(root: str, session: str) -> str:
    """Where a session's jobs are; the same session, the same folder."""
    if session and len(session) <= 64 and all(character in KEY_CHARACTERS for character in session):
        key = session
    else:
        import hashlib
        key = "x" + hashlib.sha256(session.encode("utf-8", "replace")).hexdigest()[:32]
    return os.path.join(root, JOBS_FOLDER, key)


def _read(path: str) -> "dict | None":
    try:
        value = albedo_json.loads(albedo_run_dir.read_file(path))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


class KeptJob:
    """The same face as albedo_job.Job, for one that another process looks after."""

    kept = True
    timed_out = False

    def __init__(self, loop: albedo_loop.Loop, number: int, path: str, facts: dict) -> None:
        self._loop = loop
        self._path = path
        self._facts = facts
        self._end: dict = {}
        self.number = number
        self.pid = int(facts["pid"])
        self.start = str(facts["start"])
        self.started_at = int(facts["started_at"])
        self.process = int(facts["keeper"])
        self._process_start = str(facts["keeper_start"])
        self.command = str(facts["command"])
        self.state = albedo_job.RUNNING
        self.exit_code: "int | None" = None
        self.feeds: list = []
        self.log = albedo_kept_log.Reader(os.path.join(path, albedo_kept_log.OUTPUT_FILE))
        self.was_seen = os.path.exists(os.path.join(path, SEEN_FILE))

    @property
    def running(self) -> bool:
        return self.state == albedo_job.RUNNING

    def reaped(self, _status: int) -> None:
        """What looked after it was waited for; look() tells what became of it."""

    def facts(self) -> dict:
        self.log.refresh()
        ms = self._end.get("ms", max(0, int(time.time() * 1000) - self.started_at))
        return {"job": self.number, "pid": self.pid, "state": self.state, "command": self.command,
                "started_at": self.started_at, "ms": ms, "exit_code": self.exit_code,
                "timed_out": self.timed_out, "end": self._end.get("end", ""),
                "output_bytes": self.log.size, "kept": True}

    def _there(self, pid: int, start: str) -> bool:
        boot = albedo_run_dir.this_machine().boot_id
        if boot and self._facts.get("boot_id") and boot != self._facts["boot_id"]:
            return False
        return albedo_run_dir.start_time(pid) == start != ""

    def look(self) -> bool:
        """Whether it has ended, now or before."""
        if self.state != albedo_job.RUNNING:
            return True
        gone = not self._there(self.process, self._process_start) and not self._there(self.pid, self.start)
        end = _read(os.path.join(self._path, albedo_kept.EXIT_FILE))  # after the look at its processes
        if end is not None and isinstance(end.get("exit_code"), int):
            self.state, self._end = albedo_job.ENDED, end
            self.exit_code, self.timed_out = end["exit_code"], bool(end.get("timed_out"))
        elif gone:
            self.state = albedo_job.LOST
            self._end = {"end": "lost: the host ended it with all its processes, so how it ended is not known"}
        return self.state != albedo_job.RUNNING

    def whole(self, offset: int, limit: int) -> bytes:
        self.log.refresh()
        if offset < 0:
            offset = max(0, self.log.size + offset)
        wanted, parts = max(0, min(limit, self.log.size - offset)), []
        while wanted > 0:
            part = self.log.read(offset, wanted)
            if not part:
                break
            parts.append(part)
            offset += len(part)
            wanted -= len(part)
        return b"".join(parts)

    def stop(self, answer: Callable) -> None:
        if self.look():
            answer(albedo_job_group.GONE, [])
            return
        if self._there(self.process, self._process_start):
            os.kill(self.process, _signal.SIGTERM)
        else:  # what looked after it is gone
            albedo_job_group.signal_group(self.pid, _signal.SIGKILL)
        deadline = time.monotonic() + STOP_SECONDS

        def look() -> None:
            if not self._there(self.pid, self.start) and self.look():
                answer(albedo_job_group.GONE, [])
            elif time.monotonic() > deadline:
                answer(albedo_job_group.SURVIVED, [self.pid])
            else:
                self._loop.after(LOOK_SECONDS, look)
        look()

    def seen(self) -> None:
        self.was_seen = True
        try:
            albedo_run_dir.write_file(os.path.join(self._path, SEEN_FILE), b"")
        except OSError:
            pass

    def let_go_of_input(self) -> None:
        pass

    def forget(self) -> None:
        self.log.close()
        albedo_run_dir.remove_tree(self._path)


class KeptJobs:
    """`root` is the folder that holds `run/`."""

    def __init__(self, loop: albedo_loop.Loop, root: str, session: str) -> None:
        self._loop = loop
        self._folder = folder_of(root, session)
        self._running: list = []
        self._on_end: Callable = lambda job: None

    def begin(self, adopt: Callable, on_end: Callable) -> None:
        """`adopt(job, about)` for each that is there; `on_end(job)` as each ends, and soon for those that
        ended while no kernel looked."""
        self._on_end = on_end
        _remove_old(self._loop, os.path.dirname(self._folder))
        for number, path in listed(self._folder):
            job = open_job(self._loop, number, path)
            if job is None:
                continue
            about = job._facts.get("about")
            adopt(job, {name: about[name] for name in ("cell", "service") if name in about}
                  if isinstance(about, dict) else {})
            if not job.was_seen:
                self._running.append(job)
            else:
                job.look()

    def start(self, request: albedo_job.Request, about: dict, first: int) -> KeptJob:
        """Raises OSError."""
        os.makedirs(self._folder, 0o700, exist_ok=True)
        number = max([first - 1] + [number for number, _path in listed(self._folder)]) + 1
        path = os.path.join(self._folder, str(number))
        os.mkdir(path, 0o700)
        try:
            process = self._begin(request, {name: about[name] for name in ("cell", "service")}, number, path)
            job = open_job(self._loop, number, path)
            if job is None:
                raise OSError(5, "what it noted down cannot be read", path)
        except OSError:
            albedo_run_dir.remove_tree(path)
            raise
        job.process = process
        self._running.append(job)
        return job

    def _begin(self, request: albedo_job.Request, about: dict, number: int, path: str) -> int:
        ours, theirs = _socket.socketpair()
        try:
            program = os.path.join(albedo_bundle.ROOT, "albedo_kept.py")
            pid = albedo_spawn.spawn(albedo_spawn.Spawn(
                [sys.executable or "python3", "-I", "-S", program], dict(os.environ), path,
                {0: theirs.fileno(), 1: theirs.fileno(), 2: 2}, new_session=True), lambda _pid: None)
            theirs.close()
            ours.settimeout(ANSWER_SECONDS)
            ours.sendall(albedo_json.dumps({"number": number, "about": about, "request": {
                "argv": [_hex(word) for word in request.argv], "cwd": _hex(request.cwd),
                "env": {_hex(name): _hex(value) for name, value in request.env.items()
                        if name != "SSH_AUTH_SOCK"},  # of a kernel: a dead name once that is gone
                "timeout": request.timeout, "stdin": request.stdin, "data": request.data.hex(),
                "path": _hex(request.path), "apart": request.apart}}))
            ours.shutdown(_socket.SHUT_WR)
            text = b""
            while not text.endswith(b"\n"):
                part = ours.recv(65536)
                if not part:
                    raise OSError(5, "the process that would look after it ended", path)
                text += part
            answer = albedo_json.loads(text)
            if answer:
                raise OSError(int(answer["errno"]), str(answer["error"]), str(answer["filename"]) or None)
            return pid
        except ValueError as error:
            raise OSError(5, f"not understood: {error}", path) from None
        finally:
            ours.close()
            theirs.close()

    def look(self) -> None:
        for job in [job for job in self._running if job.look()]:
            self.ended(job)

    def ended(self, job: KeptJob) -> None:
        if job in self._running:
            self._running.remove(job)
            self._on_end(job)


def _hex(text: str) -> str:
    return os.fsencode(text).hex()


def listed(folder: str) -> list:
    """(number, path) of a session's job directories, the newest MAX_LISTED, oldest first."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    numbers = sorted(int(name) for name in names if name.isascii() and name.isdigit() and len(name) < 10)
    return [(number, os.path.join(folder, str(number))) for number in numbers[-MAX_LISTED:]]


def open_job(loop: albedo_loop.Loop, number: int, path: str) -> "KeptJob | None":
    """None: not of this machine, or no job's directory. One that ended long ago is removed."""
    facts = _read(os.path.join(path, albedo_kept.JOB_FILE))
    if facts is None:
        return None
    machine = albedo_run_dir.this_machine()
    if facts.get("machine_id") != machine.machine_id or (
            not machine.machine_id and facts.get("hostname") != machine.hostname):
        return None
    try:
        job = KeptJob(loop, number, path, facts)
        ended = os.stat(os.path.join(path, albedo_kept.EXIT_FILE)).st_mtime
    except FileNotFoundError:
        return job
    except (OSError, KeyError, TypeError, ValueError):
        return None
    if time.time() - ended > KEPT_SECONDS:
        job.forget()
        return None
    return job


def _remove_old(loop: albedo_loop.Loop, folder: str) -> None:
    """What sessions left that have no kernel any more: jobs that ended long ago."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        for number, job in listed(path):
            open_job(loop, number, job)
        try:
            os.rmdir(path)
        except OSError:
            pass  # it is not empty


def end_all(root: str, session: str) -> None:
    """The session is over on this host: ends its jobs and removes their directories. It may wait some
    seconds; for a process that does nothing else."""
    loop = albedo_loop.Loop()
    jobs = [job for job in (open_job(loop, number, path) for number, path in listed(folder_of(root, session))) if job]
    waiting = set(jobs)

    def ended(job: KeptJob) -> None:
        waiting.discard(job)
        loop.running = bool(waiting)
    for job in jobs:
        job.stop(lambda _result, _pids, job=job: ended(job))
    if waiting:
        loop.run()
    for job in jobs:
        job.forget()
    try:
        os.rmdir(folder_of(root, session))
    except OSError:
        pass
