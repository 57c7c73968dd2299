"""The ladder: ends what is left of a kernel from its run directory, keeper alive or not.

    python3 -I -S albedo_signal.py        stdin: {"run": absolute run directory}
                                          stdout: one JSON line

It runs on the kernel's host and refuses for a directory of another machine. Every process is checked
by its start time, so that a number that was given away again hits nobody. TERM, 0.25 s, KILL,
verified; then the directory is removed. Run as a program it means that the daemon has done with the
kernel's session here: jobs of it that outlive kernels are ended too, unless the kernel was released
for another one of the same session.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import _signal  # noqa: E402
import time  # noqa: E402

import albedo_json  # noqa: E402
import albedo_run_dir  # noqa: E402

TERM_SECONDS = 0.25
KILL_SECONDS = 2.0
POLL_SECONDS = 0.01


def _session_members(groups: set, session: int) -> dict:
    """Live processes of the groups whose leader has ended: {pid: start}, of the keeper's session only."""
    members = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return members
    for name in names:
        process = albedo_run_dir.process(int(name)) if name.isdigit() else None
        if process is not None and process.group in groups and process.session == session:
            members[int(name)] = process.start
    return members


def _alive(targets: dict) -> dict:
    return {pid: start for pid, start in targets.items() if albedo_run_dir.start_time(pid) == start}


def _signal_all(targets: dict, number: int) -> None:
    for pid in targets:
        try:
            os.kill(pid, number)
        except OSError:
            pass


def _wait(targets: dict, seconds: float) -> dict:
    """What still lives of the targets after so long at most."""
    deadline = time.monotonic() + seconds
    targets = _alive(targets)
    while targets and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        targets = _alive(targets)
    return targets


def find(entries: list) -> dict:
    """{pid: start} of all that is to be ended: recorded processes and members of their groups."""
    found, groups = {}, set()
    session = next((entry["pid"] for entry in entries if entry["role"] == "keeper"), 0)
    for entry in entries:
        start = albedo_run_dir.start_time(entry["pid"])
        if start == entry["start"]:
            found[entry["pid"]] = start
            groups.add(entry["pgid"])
        elif not start:
            groups.add(entry["pgid"])  # its leader has ended; a member keeps the number from others
    found.update(_session_members(groups, session))
    found.pop(os.getpid(), None)
    return found


def end_run(run: str) -> dict:
    """{"gone": [pid...], "survived": [pid...]}, or {"error": "gone" | "elsewhere", "detail"}."""
    if not os.path.isdir(run):
        return {"error": "gone", "detail": "there is no run directory"}
    verdict, words = albedo_run_dir.verdict(run)
    if verdict == albedo_run_dir.ELSEWHERE:
        return {"error": "elsewhere", "detail": words}
    entries = [] if words == albedo_run_dir.STARTED_ANEW else albedo_run_dir.read_processes(run)
    targets = find(entries)
    _signal_all(targets, _signal.SIGTERM)
    _wait(targets, TERM_SECONDS)
    left = find(entries)  # what they started meanwhile too
    targets.update(left)
    _signal_all(left, _signal.SIGKILL)
    survived = _wait(left, KILL_SECONDS)
    if not survived:
        albedo_run_dir.remove_run(run)
    return {"gone": sorted(pid for pid in targets if pid not in survived), "survived": sorted(survived)}


def main() -> int:
    parts = []
    while True:  # a read may come short
        part = os.read(0, 65536)
        parts.append(part)
        if not part or b"\n" in part or sum(map(len, parts)) > 65536:
            break
    try:
        run = albedo_json.loads(b"".join(parts))["run"]
        if not isinstance(run, str) or not os.path.isabs(run):
            raise ValueError("run is no absolute path")
        released = os.path.exists(os.path.join(run, albedo_run_dir.RELEASED_FILE))
        session = str((albedo_run_dir.read_kernel(run) or {}).get("session") or "")
        answer = end_run(run)
        root = os.path.dirname(os.path.dirname(run))
        if session and not released and answer.get("error") != "elsewhere" and os.path.isdir(os.path.join(root, "jobs")):
            import albedo_kept_jobs
            albedo_kept_jobs.end_all(root, session)
    except (ValueError, KeyError, TypeError) as error:
        answer = {"error": "bad_request", "detail": f"not understood: {error}"}
    sys.stdout.write(albedo_json.dumps(answer).decode() + "\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
