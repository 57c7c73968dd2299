#!/usr/bin/python3
"""Looking at folders: a list over a private sshd beside `ssh ls`, a preview of 50,000 files beside git."""

import os
import subprocess
import tempfile
import urllib.parse
from pathlib import Path

from measure import QUICK, Daemon, RawHttp, interleave, ratio, row, scaled
from sshd import Sshd, available

ENTRIES = 1000
FILES = 2_000 if QUICK else 50_000


def remote_list() -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as name, Sshd(Path(name) / "sshd") as sshd:
        folder = Path(name) / "wide"
        for number in range(ENTRIES):
            (folder / f"{number:04}").mkdir(parents=True)
        daemon = Daemon(start=False)
        with daemon:
            daemon.environment["PATH"] = f"{sshd.bin}:{daemon.environment['PATH']}"
            daemon.environment["XDG_RUNTIME_DIR"] = str(sshd.runtime)
            daemon.boot()
            raw = RawHttp(daemon)
            path = "/fs/list?path=" + urllib.parse.quote(f"box:{folder}")
            own_master = ["-o", "ControlMaster=auto", "-o", f"ControlPath={sshd.folder}/bench-%C",
                          "-o", "ControlPersist=60"]
            ssh = [str(sshd.bin / "ssh")]

            def ours() -> None:
                assert len(raw.request("GET", path)["entries"]) == ENTRIES

            def over_master() -> None:
                subprocess.run([*ssh, *own_master, "box", f"ls {folder}"], check=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

            def beside(what: str, target: float) -> None:
                samples = interleave(10 if QUICK else 60, {what: ours, "ssh ls": over_master})
                row("list 1,000", what, scaled(samples[what], 1e3), "ms",
                    ratio(samples[what], samples["ssh ls"], "ssh ls over a master", target))
                row("list 1,000", "ssh ls over a master", scaled(samples["ssh ls"], 1e3), "ms")

            beside("albedo, no bridge: a command of its own", 2)
            daemon.cell(daemon.session(f"box:{folder}"), "1")  # from here on the bridge is up
            beside("albedo, bridge up", 0.5)
            subprocess.run([*ssh, *own_master, "-O", "exit", "box"], stderr=subprocess.DEVNULL)
            raw.close()


def preview() -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as name, Daemon() as daemon:
        tree = Path(name) / "repository"
        for number in range(FILES):
            file = tree / f"d{number % 100}" / f"e{number % 1000}" / f"f{number}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("x = 1\n")
        git = ["git", "-c", "user.name=b", "-c", "user.email=b@e", "-C", str(tree)]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
            subprocess.run([*git, *words], check=True)
        raw = RawHttp(daemon)
        path = "/fs/preview?path=" + urllib.parse.quote(os.fspath(tree))

        def ours() -> None:
            found = raw.request("GET", path)
            assert found["languages"][0]["name"] == "Python", found

        def run(command: str) -> None:
            subprocess.run(["sh", "-c", command], check=True, stdout=subprocess.PIPE)

        samples = interleave(3 if QUICK else 12, {
            "albedo preview": ours,
            "git ls-files | wc": lambda: run(f"git -C '{tree}' ls-files | wc -l"),
            "git status": lambda: run(f"git -C '{tree}' status --porcelain"),
        }, warmup=1)
        for what, values in samples.items():
            note = "" if what != "albedo preview" else (
                ratio(values, samples["git status"], "git status", 10))
            row(f"preview {FILES}", what, scaled(values, 1e3), "ms", note.split(" (target")[0])
        raw.close()


def main() -> None:
    preview()
    if available():
        remote_list()


if __name__ == "__main__":
    main()
