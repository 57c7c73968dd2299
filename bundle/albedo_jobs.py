"""The keeper's book of jobs: programs that cells started with run(), which outlive cell and worker.

The rest of it is loaded with the first job: most kernels have none.

It answers what cells and the daemon ask, holds the limits, and tells each end once: an end that no
cell has taken notice of is `unread` until one asks.
"""
from __future__ import annotations

import os
from _collections import OrderedDict

import albedo_loop
import albedo_output

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable

MAX_RUNNING = 64
KEPT_ENDED = 64
MAX_PAGE_BYTES = 1024 * 1024
TOLD_CHARACTERS = 2000
HELD_SECONDS = 10.0  # an input that is told with the next words of the same expression


class Jobs:
    """`tell(message)` sends a `job` frame; `record()` writes the process file anew; `root` and `session` say
    where jobs are that outlive kernels."""

    def __init__(self, loop: albedo_loop.Loop, tell: Callable, record: Callable, log_path: Callable,
                 root: str, session: str) -> None:
        self._loop = loop
        self._tell = tell
        self._record = record
        self._log_path = log_path
        self._jobs: "OrderedDict" = OrderedDict()
        self._about: dict = {}  # number: {"cell", "service", "unread"}
        self._waiters: dict = {}  # number: {key: answer}
        self._next = 1
        self._root, self._session = root, session
        self._kept = None
        if os.path.isdir(os.path.join(root, "jobs")):
            self._kept_jobs()

    def _kept_jobs(self):
        if self._kept is None:
            import albedo_kept_jobs
            self._kept = albedo_kept_jobs.KeptJobs(self._loop, self._root, self._session)
            self._kept.begin(self._adopt, self._on_end)
        return self._kept

    @property
    def running(self) -> list:
        return [job for job in self._jobs.values() if job.running]

    @property
    def holding(self) -> bool:
        """Whether a job runs that keeps the kernel alive though nobody is attached: no service, and none
        that outlives it anyway."""
        return any(not self._about[job.number]["service"] and not job.kept for job in self.running)

    def facts(self, job) -> dict:
        return {**job.facts(), **self._about[job.number]}

    def rows(self) -> list:
        return [self.facts(job) for job in self.running]

    def all_rows(self) -> list:
        return [self.facts(job) for job in self._jobs.values()]

    def process_entries(self) -> list:
        return [{"role": f"job {job.number}", "pid": job.pid, "pgid": job.pid, "start": job.start}
                for job in self.running if job.pid and not job.kept]

    # --- what cells ask ---

    def ask(self, method: str, args: dict, answer: Callable) -> None:
        """`answer(value)`, now or later. Raises LookupError, ValueError, OSError with words for the cell."""
        if method == "run":
            answer(self.facts(self._start(args)))
            return
        if method == "jobs":
            answer(self.all_rows())
            return
        job = self._jobs.get(int(args.get("job", 0)))
        if job is None:
            raise LookupError("that job is not known any more")
        if method == "job_pipe":
            source = self._jobs.get(int(args["source"]))
            if source is None:
                raise LookupError("the job to read from is not known any more")
            self._pipe(job, source)
            answer(None)
            return
        job.let_go_of_input()
        if method == "job_unwait":
            self._waiters.get(job.number, {}).pop(args.get("key"), None)
            answer(None)
        elif method == "job_wait" and job.running:
            self._waiters.setdefault(job.number, {})[args.get("key")] = answer
        else:
            if method == "job_read":
                answer(self._read(job, int(args["offset"]), int(args["limit"])))
            elif method == "job_stop":
                self._stop(job, answer)
            elif method in ("job", "job_wait"):
                answer(self.facts(job))
            else:
                raise LookupError(f"there is no {method}")
            self._retire(job)

    def _start(self, args: dict):
        import albedo_job
        import albedo_job_log
        if len(self.running) >= MAX_RUNNING:
            raise ValueError(f"{MAX_RUNNING} jobs run already")
        request = albedo_job.request_of(args)
        source = None
        if args.get("source") is not None:
            source = self._jobs.get(int(args["source"]))
            if source is None:
                raise LookupError("the job to read from is not known any more")
            request.stdin = "held"
        kept = bool(args.get("keep"))
        if kept and request.stdin == "held":
            raise ValueError("a job that is kept cannot read from one: both would have to be")
        about = {"cell": str(args.get("cell") or ""), "service": bool(args.get("service")), "unread": False}
        if kept:
            job = self._kept_jobs().start(request, about, self._next)
            self._jobs[job.number] = job
        else:
            number = self._next
            job = albedo_job.Job(self._loop, number, request,
                                 albedo_job_log.JobLog(self._log_path(f"job-{number}")), self._on_started,
                                 self._on_end)
            self._about[number] = about
            try:
                job.begin()
            except OSError:
                self._jobs.pop(number, None)
                self._about.pop(number, None)
                self._record()
                raise
        self._next = max(self._next, job.number) + 1
        self._about[job.number] = about
        self._tell({"t": "job", **self.facts(job)})
        if source is not None:
            try:
                self._pipe(job, source)
            except LookupError:
                job.stop(lambda *_: None)
                raise
        elif request.stdin == "held":
            self._loop.after(HELD_SECONDS, job.let_go_of_input)
        return job

    def _on_started(self, job) -> None:
        self._jobs[job.number] = job
        self._record()

    def _adopt(self, job, about: dict) -> None:
        """One that an earlier kernel of the session started."""
        self._jobs[job.number] = job
        self._about[job.number] = {"cell": "", "service": False, **about, "unread": False}
        self._next = max(self._next, job.number + 1)

    def _pipe(self, job, source) -> None:
        if job.kept or source.kept:
            raise ValueError("a job that is kept cannot be piped")
        try:
            job.read_from(source)
        except albedo_output.Gone as gone:
            raise LookupError(str(gone)) from None

    def _read(self, job, offset: int, limit: int) -> str:
        """Bytes, as characters of the same numbers."""
        try:
            return job.whole(offset, max(0, min(limit, MAX_PAGE_BYTES))).decode("latin-1")
        except albedo_output.Gone as gone:
            raise LookupError(str(gone)) from None

    def _stop(self, job, answer: Callable) -> None:
        def settled(result: str, pids: list) -> None:
            self._retire(job)
            answer({"result": result, "pids": pids})
        self._about[job.number]["stopped"] = True
        job.stop(settled)

    def _retire(self, job) -> None:
        """A cell has taken notice of its end."""
        about = self._about.get(job.number)
        if about is not None and about["unread"]:
            about["unread"] = False
            job.seen()
            self._tell({"t": "job", "job": job.number, "state": "read", "kept": job.kept,
                        "started_at": job.started_at})

    # --- what the daemon asks ---

    def stop(self, number: int, answer: Callable) -> bool:
        """`answer("gone" | "SURVIVED")` later. False when there is no such job."""
        job = self._jobs.get(number)
        if job is None:
            return False
        self._stop(job, lambda value: answer(value["result"]))
        return True

    # --- ends ---

    def reaped(self, pid: int, status: int) -> bool:
        """A child was waited for; whether it was a job of ours."""
        for job in self.running:
            if job.process == pid:
                job.reaped(status)
                return True
        return False

    def look(self) -> None:
        """Now and then: those that are no children of ours."""
        if self._kept is not None:
            self._kept.look()

    def _on_end(self, job) -> None:
        about = self._about[job.number]
        waiters = self._waiters.pop(job.number, {})
        about["unread"] = not waiters and not about["service"] and not about.get("stopped") and not job.was_seen
        if not about["unread"]:
            job.seen()
        self._record()
        self._tell({"t": "job", **self.facts(job), "output": self._last_words(job)})
        for answer in waiters.values():
            answer(self.facts(job))
        ended = [old for old in self._jobs.values() if not old.running]
        for old in ended[:-KEPT_ENDED]:
            if old.feeds or self._waiters.get(old.number):
                continue
            old.forget()
            del self._jobs[old.number]
            del self._about[old.number]

    def _last_words(self, job) -> str:
        try:
            return job.whole(-4 * TOLD_CHARACTERS, 4 * TOLD_CHARACTERS).decode("utf-8", "replace")[-TOLD_CHARACTERS:]
        except albedo_output.Gone as gone:
            return f"[{gone}]"

    def forget_waiters(self) -> None:
        """The worker that asked has ended."""
        self._waiters.clear()

    def kill_all(self) -> None:
        for job in self.running:
            if not job.kept:
                job.kill()
