"""The keeper: a kernel's socket, link, limits and life. One thread; it never runs user code.

It listens in its run directory, serves one attachment at a time, numbers what it tells the api until
that is acknowledged, and owns the worker and the jobs (docs/PROTOCOL.md tells the story).
"""
import _signal
import _socket
import os
import sys
import time

import albedo_asks
import albedo_attachment
import albedo_bundle
import albedo_cell_queue
import albedo_environ
import albedo_frames
import albedo_jobs
import albedo_json
import albedo_link
import albedo_loop
import albedo_output
import albedo_readers
import albedo_release
import albedo_requests
import albedo_run_dir
import albedo_worker_process

PROTOCOL = 1
TICK_SECONDS = 0.8  # the run directory is looked at so often: it is gone, we are gone within 1 s
ACK_SECONDS = 0.1
GRACE_SECONDS = 3600.0
FIRST_ATTACH_SECONDS = 60.0
TOKEN_SECONDS = 10.0
MAX_PENDING = 8
LOG_BYTES = 256 * 1024


class Keeper:
    """`request` is the bridge's start request, `run` the run directory, which is the working folder."""

    def __init__(self, request: dict, run: str) -> None:
        settings = request.get("settings") or {}
        self.loop = albedo_loop.Loop()
        self.link = albedo_link.Link()
        self.run = run
        self.token = request["token"]
        self.owner, self.attempt = "", -1
        self.grace = float(request.get("grace") or GRACE_SECONDS)
        self.attachment: "albedo_attachment.Attachment | None" = None
        self._request = request
        self._settings = settings
        self._machine = albedo_run_dir.this_machine()
        self._pending: list = []
        self._idle_since: "float | None" = time.monotonic()
        self._attached_once = False
        self._ack_timer: "albedo_loop.Timer | None" = None
        self._listener: "_socket.socket | None" = None
        self._start = albedo_run_dir.start_time(os.getpid())
        self._env = albedo_environ.given()
        self._login = bool(request.get("login"))
        self.note = ""
        self._generation = 0
        os.makedirs(albedo_run_dir.OUTPUT_FOLDER, 0o700, exist_ok=True)
        self.readers = albedo_readers.Readers(lambda cell: self.cells.log(cell))
        self.cells = albedo_cell_queue.CellQueue(
            self.loop, self.readers, self.tell, self._live_worker,
            lambda cell: f"{albedo_run_dir.OUTPUT_FOLDER}/{cell}",
            int(settings.get("ring_bytes") or albedo_output.RING_BYTES))
        self.jobs = albedo_jobs.Jobs(self.loop, self.tell, self._record_processes,
                                     lambda name: f"{albedo_run_dir.OUTPUT_FOLDER}/{name}",
                                     os.path.dirname(os.path.dirname(run)), str(request.get("session") or ""))
        self._asks = albedo_asks.Asks(self.jobs, self.tell)
        self._state = albedo_release.state_path(run, str(request.get("session") or ""))
        self._release = albedo_release.Release(self.loop, self._state, request["folder"], self.cells,
                                               self.jobs, lambda: self.worker, self.tell,
                                               float(settings.get("save_seconds") or albedo_release.SAVE_SECONDS))
        self.worker = self._new_worker()

    # --- start ---

    def begin(self) -> None:
        """Makes the worker, then listens. In the worker, BecomeWorker comes out."""
        if sys.platform.startswith("linux"):
            self.worker.fork()
        else:
            self.worker.exec(self._env)
        self._record_processes()
        albedo_run_dir.write_kernel(".", {
            "protocol": PROTOCOL, "session": self._request.get("session", ""),
            "folder": self._request["folder"], "digest": albedo_bundle.DIGEST,
            "hostname": self._machine.hostname, "machine_id": self._machine.machine_id,
            "boot_id": self._machine.boot_id, "pid": os.getpid(), "start": self._start})
        self._set_up_worker()
        self._listen()
        self._watch_children()
        self.loop.after(TICK_SECONDS, self._tick)

    def _listen(self) -> None:
        """By a relative name: an absolute one may be longer than a socket's path can be."""
        listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            os.unlink(albedo_run_dir.SOCKET_FILE)
        except OSError:
            pass
        old_mask = os.umask(0o177)
        try:
            listener.bind(albedo_run_dir.SOCKET_FILE)
        except OSError:  # a file system without sockets
            folder = f"{albedo_run_dir.SOCKET_FOLDER_PREFIX}{os.getuid()}-{os.urandom(8).hex()}"
            os.umask(0o077)
            os.mkdir(folder, 0o700)
            path = os.path.join(folder, albedo_run_dir.SOCKET_FILE)
            os.umask(0o177)
            listener.bind(path)
            albedo_run_dir.write_file(albedo_run_dir.SOCKET_PATH_FILE, path.encode())
        finally:
            os.umask(old_mask)
        listener.listen(16)
        listener.setblocking(False)
        self._listener = listener
        self.loop.watch(listener.fileno(), albedo_loop.READ, self._on_connection)

    def _watch_children(self) -> None:
        ours, theirs = _socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self._wake = (ours, theirs)
        _signal.signal(_signal.SIGCHLD, lambda *_args: None)
        _signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        self.loop.watch(ours.fileno(), albedo_loop.READ, self._on_child)
        self._on_child(0)  # one may have ended before we looked

    def _on_child(self, _events: int) -> None:
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
            if pid == self.worker.pid:
                self.worker.reaped(status)
            elif self.jobs.reaped(pid, status):
                self.jobs.look()

    def _record_processes(self) -> None:
        entries = [{"role": "keeper", "pid": os.getpid(), "pgid": os.getpgrp(), "start": self._start}]
        if self.worker.alive:
            entries.append({"role": "worker", "pid": self.worker.pid, "pgid": self.worker.pid,
                            "start": self.worker.start})
        try:
            albedo_run_dir.write_processes(".", entries + self.jobs.process_entries())
        except OSError as error:
            self.log(f"the process file cannot be written: {error}")

    # --- the worker ---

    def _new_worker(self) -> albedo_worker_process.WorkerProcess:
        return albedo_worker_process.WorkerProcess(
            self.loop, self._on_worker_message, lambda data: self.cells.on_output(data), self._on_worker_end)

    def _set_up_worker(self) -> None:
        setup = {"t": "setup", "folder": self._request["folder"], "nofile": self._settings.get("nofile") or 0,
                 "auth_socket": os.path.join(self.run, "agent.sock")}
        if self._generation == 0:
            setup["login"] = self._login
            setup["restore"] = self._state
        setup["env"] = self._env
        self.worker.send(setup)

    def _live_worker(self) -> albedo_worker_process.WorkerProcess:
        """The worker, started anew if it has ended. Raises OSError."""
        if not self.worker.alive:
            self._generation += 1
            worker = self._new_worker()
            worker.exec(self._env)
            self.worker = worker
            self._record_processes()
            self._set_up_worker()
            self.tell({"t": "worker", "state": "started", "pid": worker.pid}, False)
        return self.worker

    def _on_worker_end(self, cause: str) -> None:
        self.log(f"worker {self.worker.pid} ended: {cause}")
        self._asks.forget()
        self._release.on_worker_end()
        self._record_processes()
        self.tell({"t": "worker", "state": "ended", "pid": self.worker.pid, "cause": cause}, False)
        self.cells.on_worker_end(cause)

    def _on_worker_message(self, kind: str, message: dict) -> None:
        if kind == "done":
            self.cells.on_done(message)
        elif kind == "awaits":
            self.cells.on_awaits(message.get("cell"))
        elif kind == "out":
            self.cells.on_tagged(message)
        elif kind == "ask":
            self._asks.ask(self.worker, message)
        elif kind == "saved":
            self._release.on_saved(message)
        elif kind == "restored":
            self.tell(message)
        elif kind == "ready":
            self.note = str(message.get("note") or "")
            if isinstance(message.get("env"), dict):
                self._env = {str(name): str(value) for name, value in message["env"].items()}

    # --- attachments ---

    def adopt(self, socket, decoder: albedo_frames.Decoder) -> None:
        """The bridge's own socket is the first connection."""
        connection = albedo_attachment.Attachment(self, socket, decoder)
        self._pending.append(connection)
        connection.send(albedo_frames.OPENED, albedo_json.dumps({"run": self.run}))
        connection.on_bytes(b"")

    def _on_connection(self, _events: int) -> None:
        try:
            descriptor, _address = self._listener._accept()
        except OSError:
            return
        if len(self._pending) >= MAX_PENDING:
            self._pending[0].close()
        connection = albedo_attachment.Attachment(
            self, _socket.socket(fileno=descriptor), albedo_frames.Decoder())
        self._pending.append(connection)
        connection.timer = self.loop.after(TOKEN_SECONDS, connection.close)

    def connection_ended(self, connection) -> None:
        if connection in self._pending:
            self._pending.remove(connection)
        if connection is self.attachment:
            self.attachment = None
            self.readers.detach()
            self.cells.look_at_back_pressure()

    def attach(self, connection, request: dict) -> None:
        """A connection has presented itself: takes it, or refuses it and cuts it."""
        token, owner, attempt = request.get("token"), request.get("owner"), request.get("attempt")
        if not (isinstance(token, str) and isinstance(owner, str) and isinstance(attempt, int) and
                same_text(token, self.token)):
            connection.refuse("token")
            return
        if owner == self.owner and attempt < self.attempt:
            connection.refuse("older attempt")
            return
        old = self.attachment
        if old is not None:
            self.attachment = None
            old.send(albedo_frames.SUPERSEDED, albedo_json.dumps({"owner": owner}))
            old.finish()
        if connection in self._pending:
            self._pending.remove(connection)
        self.loop.cancel(connection.timer)
        self.owner, self.attempt = owner, attempt
        self.attachment = connection
        self._attached_once = True
        if isinstance(request.get("grace"), (int, float)) and request["grace"] > 0:
            self.grace = float(request["grace"])
        self._point_to_agent(request.get("auth_sock"))
        ack = request.get("ack")
        self.link.peer_has(ack if isinstance(ack, int) else 0)
        self.readers.attach(connection.send, lambda: connection.queued)
        worker = self.worker
        connection.send(albedo_frames.HELLO, albedo_json.dumps({
            "protocol": PROTOCOL, "digest": albedo_bundle.DIGEST, "pid": os.getpid(),
            "worker": {"pid": worker.pid, "state": "running" if worker.alive else "ended"},
            "python": sys.version.split()[0], "ack": self.link.received, "next": self.link.next_seq,
            "cells": self.cells.describe(self._unacknowledged_cells), "jobs": self.jobs.rows(),
            "note": self.note}))
        for seq, payload in self.link.unacknowledged():
            connection.send_numbered(seq, payload)
        for credit in request.get("credits") or []:
            self._on_credit(credit)
        self.readers.pump()

    def _unacknowledged_cells(self) -> list:
        cells = []
        for _seq, payload in self.link.unacknowledged():
            if payload.startswith(b'{"t": "done"'):
                cells.append(albedo_json.loads(payload)["cell"])
        return cells

    def _point_to_agent(self, path) -> None:
        """Keeps one name for the user's ssh agent, whatever connection it came with."""
        if isinstance(path, str) and path:
            try:
                os.symlink(path, "agent.sock.part")
                os.rename("agent.sock.part", "agent.sock")
            except OSError as error:
                self.log(f"the ssh agent's name cannot be set: {error}")

    # --- the link ---

    def tell(self, message, result: bool = True) -> None:
        """Sends a control frame and keeps it until it is acknowledged. News that are no `result` are
        left out while the outbox is at its bound."""
        if not result and self.link.full:
            return
        payload = message if isinstance(message, bytes) else albedo_json.dumps(message)
        seq = self.link.add(payload)
        if self.attachment is not None:
            self.attachment.send_numbered(seq, payload)

    def on_frame(self, connection, kind: int, seq: int, ack: int, payload: bytes) -> None:
        """A frame of the attachment."""
        if ack:
            self.link.peer_has(ack)
        if kind == albedo_frames.CONTROL:
            taken = self.link.take(seq)
            if taken == albedo_link.NEW:
                self._on_control(payload)
                if self.link.ack_due and self._ack_timer is None:
                    self._ack_timer = self.loop.after(ACK_SECONDS, self._send_ack)
            elif taken == albedo_link.GAP:
                connection.close()
            else:
                self._send_ack_soon()
        elif kind == albedo_frames.CREDIT:
            self._on_credit(albedo_json.loads(payload))
            self.cells.pump()
        elif kind == albedo_frames.PAGE:
            connection.send(kind, albedo_requests.page(self.cells, albedo_json.loads(payload)))
        elif kind == albedo_frames.QUERY:
            albedo_requests.query(self, albedo_json.loads(payload),
                                  lambda answer: connection.send(kind, albedo_json.dumps(answer)))

    def _send_ack_soon(self) -> None:
        self.link.acknowledged = min(self.link.acknowledged, self.link.received - 1)
        if self._ack_timer is None:
            self._ack_timer = self.loop.after(ACK_SECONDS, self._send_ack)

    def _send_ack(self) -> None:
        self._ack_timer = None
        if self.attachment is not None and self.link.ack_due:
            self.attachment.send(albedo_frames.ACK, b"")

    def _on_control(self, payload: bytes) -> None:
        message = albedo_json.loads(payload)
        kind = message["t"]
        if kind == "execute":
            albedo_readers.cell_bytes(message["cell"])
            if not isinstance(message["code"], str):
                raise ValueError("code is no text")
            self._release.on_execute()
            refuse = "the daemon has not taken earlier results yet" if self.link.full else ""
            self.cells.execute(message, payload, refuse)
        elif kind == "interrupt":
            self.cells.interrupt(message["cell"], bool(message.get("force")))
        elif kind == "answer":
            self._asks.answered(self.worker, message)
        elif kind == "release":
            self._release.begin()
        elif kind == "end":
            self.loop.after(0, lambda: self.end("the daemon ended it"))

    def _on_credit(self, credit: dict) -> None:
        cell, start, until = credit["cell"], int(credit["from"]), int(credit["until"])
        albedo_readers.cell_bytes(cell)
        self.readers.grant(cell, start, until, True)

    # --- life ---

    def _tick(self) -> None:
        self.loop.after(TICK_SECONDS, self._tick)
        try:
            os.stat(self.run)
        except (FileNotFoundError, NotADirectoryError):
            self.end("its run directory was removed")
            return
        except OSError:
            pass  # a file server that does not answer proves nothing
        if not os.path.exists(albedo_run_dir.SOCKET_PATH_FILE) and not os.path.exists(albedo_run_dir.SOCKET_FILE):
            self.loop.unwatch(self._listener.fileno())
            self._listener.close()
            self._listen()
        self.cells.look_at_back_pressure()
        self.jobs.look()
        now = time.monotonic()
        if self.attachment is not None or self.cells.busy or self.jobs.holding:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        elif now - self._idle_since > (self.grace if self._attached_once else FIRST_ATTACH_SECONDS):
            self.end("nobody attached within its grace")

    def end(self, why: str) -> None:
        """Ends jobs and worker, removes the run directory, stops the loop."""
        self.log(why)
        self.jobs.kill_all()
        self.worker.kill(why)
        if self.attachment is not None:
            self.attachment.finish()
        self.cells.close()
        albedo_run_dir.remove_run(self.run)
        self.loop.running = False

    def log(self, words: str) -> None:
        """A line in the kernel's own log, which stays small."""
        try:
            if os.fstat(2).st_size < LOG_BYTES:
                line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {words}\n"
                os.write(2, line.encode("utf-8", "replace"))
        except OSError:
            pass


def same_text(one: str, other: str) -> bool:
    """Compared in a time that does not tell where they differ."""
    a, b = one.encode("utf-8", "replace"), other.encode("utf-8", "replace")
    difference = len(a) ^ len(b)
    for x, y in zip(a, b):
        difference |= x ^ y
    return difference == 0 and bool(b)
