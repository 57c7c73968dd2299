#!/usr/bin/python3
"""The cell 1+1 in a kernel behind ssh, through HTTP, beside a framed pipe over the same master,
mitogen's call and ipykernel with its five ports forwarded."""

from __future__ import annotations

import logging
import os
import queue
import subprocess
import tempfile

from measure import PYTHON, QUICK, FramedPipe, RawHttp, interleave, ratio, row, scaled
from ssh_rig import daemon_for, over_daemons_master, private_sshd, ssh_words
from sshd import available, free_port
from warm_cell import Jupyter

GROUP = "warm cell, ssh"
PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")


class Mitogen:
    def __init__(self, server, reach: tuple[str, ...]) -> None:
        import mitogen.master

        from remote_function import remote_eval

        logging.getLogger().setLevel(logging.ERROR)
        self.router = mitogen.master.Router(mitogen.master.Broker())
        self.context = self.router.ssh(hostname="box", ssh_args=list(reach[1:-1]), python_path=PYTHON)
        self.function = remote_eval

    def eval(self, code: str) -> str:
        return self.context.call(self.function, code)

    def close(self) -> None:
        self.router.broker.shutdown()
        self.router.broker.join()


class RemoteJupyter(Jupyter):
    def __init__(self, server) -> None:
        from jupyter_client import BlockingKernelClient
        from jupyter_client.connect import write_connection_file

        self.folder = tempfile.TemporaryDirectory(prefix="bench-")
        here = {name: free_port() for name in PORTS}
        there = {name: free_port() for name in PORTS}
        key = os.urandom(16).hex().encode()
        files = {}
        for name, ports in (("here", here), ("there", there)):
            files[name], _ = write_connection_file(f"{self.folder.name}/{name}.json", ip="127.0.0.1", key=key, **ports)
        forwards = [word for name in PORTS for word in ("-L", f"127.0.0.1:{here[name]}:127.0.0.1:{there[name]}")]
        self.process = subprocess.Popen(
            [*ssh_words(server, "-o", "ControlPath=none", *forwards),
             f"exec {PYTHON} -m ipykernel_launcher -f {files['there']}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = BlockingKernelClient(connection_file=files["here"])
        self.client.load_connection_file()
        self.client.start_channels()
        for _ in range(300):  # until both ways are seen to work
            try:
                self.client.kernel_info()
                self.client.get_shell_msg(timeout=0.1)
                self.client.get_iopub_msg(timeout=0.05)
                break
            except queue.Empty:
                pass
        self.client.wait_for_ready(timeout=60)

    def close(self) -> None:
        self.client.shutdown()
        self.client.stop_channels()
        self.process.terminate()
        self.process.wait(10)
        self.folder.cleanup()


def main() -> None:
    if not available():
        row(GROUP, "skipped: needs root, sshd, ssh-keygen", [0.0], "us")
        return
    rounds = 50 if QUICK else 500
    with private_sshd() as server, daemon_for(server) as daemon:
        session = daemon.session(f"box:{server.home}")
        raw = RawHttp(daemon)
        raw.cell(session, "1")
        master = over_daemons_master(server)
        rivals = {"framed pipe over the same master": FramedPipe(master)}
        try:
            rivals["mitogen call over the same master"] = Mitogen(server, master)
        except ImportError:
            pass
        try:
            rivals["ipykernel, ports forwarded (reply and idle)"] = RemoteJupyter(server)
        except ImportError:
            pass

        def ours() -> None:
            assert raw.cell(session, "1+1")["value"] == "2"

        def theirs(rival) -> None:
            assert rival.eval("1+1") == "2"

        mine = "albedo over ssh, HTTP keep-alive, wait=true"
        samples = interleave(rounds, {mine: ours, **{
            name: lambda rival=rival: theirs(rival) for name, rival in rivals.items()}}, warmup=20)
        targets = {"framed pipe": 3, "mitogen": 1.5, "ipykernel": 0.2}
        notes = [ratio(samples[mine], samples[name], short, target)
                 for name in rivals for short, target in targets.items() if name.startswith(short)]
        for name, values in samples.items():
            row(GROUP, name, scaled(values, 1e6), "us", "; ".join(notes) if name == mine else "")
        for rival in rivals.values():
            rival.close()
        raw.close()


if __name__ == "__main__":
    main()
