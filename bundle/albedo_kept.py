"""The program beside a job that outlives its kernel: takes what it prints, notes how it ended.

    python3 -I -S albedo_kept.py      working folder: the job's directory
                                      stdin: the request, JSON, to its end; stdout: one line of JSON

It is in a session of its own, waits for that one job, and ends with it. SIGTERM: it ends the job.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import _signal  # noqa: E402
import _socket  # noqa: E402
import bisect  # noqa: E402,F401  (now: the bundle's folder may be gone when it is needed)

import albedo_job  # noqa: E402
import albedo_json  # noqa: E402
import albedo_kept_log  # noqa: E402
import albedo_loop  # noqa: E402
import albedo_run_dir  # noqa: E402

JOB_FILE = "job.json"
EXIT_FILE = "exit.json"
LAST_SECONDS = 5.0  # for what the job left in its group


class Kept:
    def __init__(self, message: dict) -> None:
        self.loop = albedo_loop.Loop()
        self._about = message["about"]
        self._job = albedo_job.Job(self.loop, int(message["number"]), albedo_job.request_of(message["request"]),
                                   albedo_kept_log.Writer(albedo_kept_log.OUTPUT_FILE), self._started, self._ended)

    def begin(self) -> None:
        """Raises OSError."""
        ours, theirs = _socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        self._wake = (ours, theirs)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.signal(_signal.SIGTERM, lambda *_: self._job.stop(lambda *_: None))
        _signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        self.loop.watch(ours.fileno(), albedo_loop.READ, lambda _events: self._on_signal())
        self._job.begin()
        self._on_signal()

    def _started(self, job: albedo_job.Job) -> None:
        machine = albedo_run_dir.this_machine()
        albedo_run_dir.write_file(JOB_FILE, albedo_json.dumps({
            "job": job.number, "pid": job.pid, "start": job.start, "command": job.command,
            "started_at": job.started_at, "keeper": os.getpid(),
            "keeper_start": albedo_run_dir.start_time(os.getpid()), "machine_id": machine.machine_id,
            "boot_id": machine.boot_id, "hostname": machine.hostname, "about": self._about}))

    def _on_signal(self) -> None:
        try:
            while self._wake[0].recv(512):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._job.pid:
                self._job.reaped(status)

    def _ended(self, job: albedo_job.Job) -> None:
        facts = job.facts()
        try:
            albedo_run_dir.write_file(EXIT_FILE, albedo_json.dumps(
                {name: facts[name] for name in ("exit_code", "timed_out", "ms", "end")}))
        except OSError:
            pass  # the disk is full: whoever looks finds it lost, not well
        self.loop.after(LAST_SECONDS, self._stop)
        job.stop(lambda *_: self._stop()) if not job.stopping else self._stop()

    def _stop(self) -> None:
        self.loop.running = False


def main() -> int:
    for number in (_signal.SIGPIPE, _signal.SIGHUP, _signal.SIGINT):
        _signal.signal(number, _signal.SIG_IGN)
    parts = []
    while True:
        part = os.read(0, 65536)
        if not part:
            break
        parts.append(part)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    reply = os.dup(1)
    os.dup2(null, 1)
    os.close(null)
    answer: dict = {}
    kept = None
    try:
        kept = Kept(albedo_json.loads(b"".join(parts)))
        kept.begin()
    except OSError as error:
        answer = {"errno": error.errno or 5, "error": error.strerror, "filename": str(error.filename or "")}
    except (ValueError, KeyError, TypeError) as error:
        answer = {"errno": 22, "error": str(error), "filename": ""}
    os.write(reply, albedo_json.dumps(answer) + b"\n")
    os.close(reply)
    if answer:
        return 1
    kept.loop.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
