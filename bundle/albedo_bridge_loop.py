"""Carries frames between the agent's stdio and the sockets of kernels on this host.

It keeps no state beyond its connections, reads no payload of the link, and never waits for one
kernel: what might take time runs in a thread (albedo_answers.py).
"""
import os
import sys
from _collections import deque

import albedo_answers
import albedo_blank
import albedo_bundle
import albedo_frames
import albedo_json
import albedo_loop
import albedo_run_dir
import albedo_stream

PROTOCOL = 1
TO_KERNEL_BYTES = 1024 * 1024  # queued towards one kernel, then that attachment is closed
TO_AGENT_BYTES = 256 * 1024  # queued towards the agent, then no kernel is read
FROM_KERNEL_BYTES = 64 * 1024  # from each ready kernel in turn
READ_BYTES = 64 * 1024  # more would be mapped and unmapped by malloc for each small frame
PIPE_BYTES = 256 * 1024
F_SETPIPE_SZ = 1031
MAX_KERNELS = 1024
YOUNG_SECONDS = 15.0  # a run directory without a record is being made, for so long
RUN_ID_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


class Attached:
    """One kernel's socket under the number the api gave it."""

    def __init__(self, number: int, run: str) -> None:
        self.number = number
        self.run = run
        self.stream: "albedo_stream.Stream | None" = None
        self.opened = False
        self.partial = bytearray()  # the start of a frame whose end has not come
        self.wanted = albedo_frames.HEADER_BYTES  # bytes of it that there must be to go on


class Bridge:
    def __init__(self, nonce: str, blank) -> None:
        self._nonce = nonce
        self._blank = blank
        self._loop = albedo_loop.Loop()
        self._decoder = albedo_frames.Decoder()
        self._kernels: dict = {}
        self._children = [blank[0]]
        self._queue: deque = deque()
        self._queued = 0
        self._held = False
        self._root = albedo_bundle.home_of_runs()
        self._machine = albedo_run_dir.this_machine()
        self._out = os.dup(1)
        os.dup2(2, 1)  # a stray print must not tear the frames
        os.set_blocking(self._out, False)
        try:
            import fcntl
            fcntl.fcntl(self._out, F_SETPIPE_SZ, PIPE_BYTES)  # fewer wake-ups of a reader
        except (ImportError, OSError):
            pass  # a socket of sshd, or a system without
        self._answers = albedo_answers.Answers(self._loop, self._answer)

    def run(self) -> None:
        """Until the agent's end closes."""
        self._write(f"\nalbedo-bridge {self._nonce}\n".encode())
        self._to_agent(0, albedo_frames.READY, self._about())
        self._loop.watch(0, albedo_loop.READ, self._on_stdin)
        try:
            self._loop.run()
        except BrokenPipeError:
            pass
        os._exit(0)  # threads that still look at a dead file server do not hold us

    def _about(self) -> dict:
        system = os.uname()
        try:
            import pwd
            user = pwd.getpwuid(os.getuid()).pw_name
        except (ImportError, KeyError):
            user = os.environ.get("USER", str(os.getuid()))
        return {"protocol": PROTOCOL, "pid": os.getpid(), "python": sys.executable,
                "python_version": sys.version.split()[0], "home": os.path.expanduser("~"), "user": user,
                "hostname": self._machine.hostname, "os": system.sysname, "arch": system.machine,
                "root": self._root, "digest": albedo_bundle.DIGEST,
                "machine_id": self._machine.machine_id, "boot_id": self._machine.boot_id}

    # --- towards the agent ---

    def _to_agent(self, number: int, kind: int, message: dict) -> None:
        self._write(albedo_frames.encode(number, kind, 0, 0, albedo_json.dumps(message)))

    def _write(self, data) -> None:
        if not self._queue:
            try:
                sent = os.write(self._out, data)
            except BlockingIOError:
                sent = 0
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
            self._loop.watch(self._out, albedo_loop.WRITE, self._on_writable)
        self._queue.append(data)
        self._queued += len(data)
        self._hold()

    def _on_writable(self, _events: int) -> None:
        while self._queue:
            data = self._queue[0]
            try:
                sent = os.write(self._out, data)
            except BlockingIOError:
                break
            self._queued -= sent
            if sent < len(data):
                self._queue[0] = memoryview(data)[sent:]
                break
            self._queue.popleft()
        if not self._queue:
            self._loop.unwatch(self._out)
        self._hold()

    def _hold(self) -> None:
        """Stops reading kernels while the agent is behind."""
        held = self._queued > TO_AGENT_BYTES
        if held != self._held:
            self._held = held
            for kernel in self._kernels.values():
                kernel.stream.pause(held)

    def _answer(self, message: dict, then) -> None:
        """A thread has finished."""
        if then is not None:
            then(message)
        else:
            # The call's number travels in the head: the agent passes the payload on unread.
            number = message.pop("id", 0)
            self._write(albedo_frames.encode(0, albedo_frames.ANSWER, number, 0, albedo_json.dumps(message)))

    # --- from the agent ---

    def _on_stdin(self, _events: int) -> None:
        try:
            piece = os.read(0, READ_BYTES)
        except BlockingIOError:
            return
        if not piece:
            self._loop.running = False
            return
        decoder = self._decoder
        decoder.feed(piece)
        while True:
            frame = decoder.next()
            if frame is None:
                return
            number, kind, seq, ack, payload = frame
            if kind < albedo_frames.START:
                kernel = self._kernels.get(number)
                if kernel is not None:
                    self._to_kernel(kernel, albedo_frames.encode(number, kind, seq, ack, payload))
                continue
            try:
                self._on_request(number, kind, payload)
            except (ValueError, KeyError, TypeError) as error:
                self._closed(number, "failed", f"not understood: {type(error).__name__}: {error}")

    def _on_request(self, number: int, kind: int, payload: bytes) -> None:
        if kind == albedo_frames.CLOSE:
            self._forget(number)
            return
        message = albedo_json.loads(payload)
        if kind == albedo_frames.CALL:
            self._answers.ask(message)
        elif kind == albedo_frames.OPEN:
            self._open(number, message["run"], message["attach"])
        elif kind == albedo_frames.START:
            self._start(number, message)

    def _to_kernel(self, kernel: Attached, data: bytes) -> None:
        if kernel.stream.queued > TO_KERNEL_BYTES:
            self._closed(kernel.number, "overflow", "the kernel does not read what is sent to it")
            return
        kernel.stream.send(data)

    # --- kernels ---

    def _attach(self, number: int, run: str, socket, first: bytes) -> Attached:
        self._forget(number)
        kernel = Attached(number, run)
        kernel.stream = albedo_stream.Stream(
            self._loop, socket, lambda piece: self._on_kernel(kernel, piece),
            lambda: self._on_kernel_end(kernel), read_bytes=FROM_KERNEL_BYTES)
        self._kernels[number] = kernel
        kernel.stream.send(first)
        if self._held:
            kernel.stream.pause(True)
        return kernel

    def _open_frame(self, attach: dict) -> bytes:
        if not isinstance(attach, dict):
            raise TypeError("attach is no object")
        attach = {**attach, "auth_sock": os.environ.get("SSH_AUTH_SOCK", "")}
        return albedo_frames.encode(0, albedo_frames.OPEN, 0, 0, albedo_json.dumps(attach))

    def _open(self, number: int, run: str, attach: dict) -> None:
        if not os.path.isabs(run):
            raise ValueError("run is no absolute path")
        first = self._open_frame(attach)
        if len(self._kernels) >= MAX_KERNELS:
            self._closed(number, "failed", f"{MAX_KERNELS} kernels are attached already")
            return
        try:
            socket = self._connect(run)
        except OSError as error:
            self._explain(number, run, f"no connection to the kernel: {error.strerror}")
            return
        kernel = self._attach(number, run, socket, first)
        kernel.opened = True
        self._to_agent(number, albedo_frames.OPENED, {"run": run})

    def _connect(self, run: str):
        """Raises OSError."""
        try:
            path = albedo_run_dir.read_file(os.path.join(run, albedo_run_dir.SOCKET_PATH_FILE)).decode()
            return albedo_stream.connect(path)
        except FileNotFoundError:
            pass
        path = os.path.join(run, albedo_run_dir.SOCKET_FILE)
        if len(os.fsencode(path)) < 100:
            return albedo_stream.connect(path)
        os.chdir(run)  # a socket's path may be 107 bytes long, a relative name always fits
        try:
            return albedo_stream.connect(albedo_run_dir.SOCKET_FILE)
        finally:
            os.chdir("/")

    def _explain(self, number: int, run: str, words: str) -> None:
        """Why a kernel cannot be reached: looked at in a thread, the disk may be slow."""
        def then(found: dict) -> None:
            self._closed(number, found["reason"], found["detail"] or words)
        self._answers.work(lambda: why_not(run, self._machine), then)

    def _start(self, number: int, request: dict) -> None:
        run_id, folder = request["run_id"], request["folder"]
        if not isinstance(run_id, str) or not 0 < len(run_id) <= 64 or set(run_id) - RUN_ID_CHARACTERS:
            raise ValueError("run_id")
        if not isinstance(folder, str) or not os.path.isabs(folder) or not isinstance(request["token"], str):
            raise ValueError("folder or token")
        first = self._open_frame(request["attach"])
        run = os.path.join(self._root, "run", run_id)
        try:
            os.makedirs(os.path.dirname(run), 0o700, exist_ok=True)
            os.mkdir(run, 0o700)
        except FileExistsError:
            self._open(number, run, request["attach"])  # a start whose answer was lost
            return
        except OSError as error:
            self._closed(number, "failed", f"{run}: {error.strerror}")
            return
        start = {"run": run, **{name: request.get(name) for name in (
            "folder", "session", "token", "grace", "login", "settings")}}
        self._attach(number, run, self._take_blank(), albedo_frames.encode(
            0, albedo_frames.START, 0, 0, albedo_json.dumps(start)) + first)

    def _take_blank(self):
        """The socket of a keeper that waits for its request."""
        blank, self._blank = self._blank, None
        if blank is None:
            blank = albedo_blank.start_blank()
            self._children.append(blank[0])
        return blank[1]

    def _on_kernel(self, kernel: Attached, piece: bytes) -> None:
        """Whole frames go on as they are, under the number of the socket they came from."""
        buffer = kernel.partial
        buffer += piece
        start, size = 0, len(buffer)
        if size < kernel.wanted:
            return
        kernel.wanted = albedo_frames.HEADER_BYTES
        while size - start >= albedo_frames.HEADER_BYTES:
            length = albedo_frames.LENGTH.unpack_from(buffer, start)[0]
            if length > albedo_frames.MAX_PAYLOAD_BYTES:
                self._closed(kernel.number, "dropped", "the kernel broke the rules of its stream")
                return
            end = start + albedo_frames.HEADER_BYTES + length
            if end > size:
                kernel.wanted = end - start
                break
            albedo_frames.KERNEL_FIELD.pack_into(buffer, start + albedo_frames.KERNEL_OFFSET, kernel.number)
            kind = buffer[start + 8]
            if kind >= albedo_frames.START:
                if kernel.opened or kind not in (albedo_frames.OPENED, albedo_frames.CLOSED):
                    self._closed(kernel.number, "dropped", "the kernel broke the rules of its stream")
                    return
                kernel.opened = True
                if kind == albedo_frames.CLOSED:
                    self._write(bytes(buffer[start:end]))
                    self._forget(kernel.number)
                    return
            start = end
        if start:
            kernel.partial = buffer[start:]
            self._write(memoryview(buffer)[:start])

    def _on_kernel_end(self, kernel: Attached) -> None:
        if self._kernels.get(kernel.number) is not kernel:
            return
        del self._kernels[kernel.number]
        self._reap()
        if kernel.opened:
            self._closed(kernel.number, "dropped", "the kernel's connection ended")
        else:
            log = last_words(kernel.run)
            self._answers.work(lambda: why_not(kernel.run, self._machine), lambda found: self._closed(
                kernel.number, "failed", f"the kernel ended as it started: {log or found['detail']}"))

    def _reap(self) -> None:
        """Keepers that have ended are children of ours and would look alive."""
        for pid in list(self._children):
            try:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    self._children.remove(pid)
            except ChildProcessError:
                self._children.remove(pid)

    def _forget(self, number: int) -> None:
        kernel = self._kernels.pop(number, None)
        if kernel is not None:
            kernel.stream.close()

    def _closed(self, number: int, reason: str, detail: str) -> None:
        self._forget(number)
        self._to_agent(number, albedo_frames.CLOSED, {"reason": reason, "detail": detail})


def last_words(run: str) -> str:
    """The last line of a kernel's own log."""
    try:
        lines = albedo_run_dir.read_file(os.path.join(run, albedo_run_dir.LOG_FILE)).decode(
            "utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1][-500:] if lines else ""


def why_not(run: str, machine) -> dict:
    """{"reason", "detail"} for a kernel that cannot be connected to; what is left of a dead one ends."""
    import time
    verdict, words = albedo_run_dir.verdict(run, machine)
    if verdict == albedo_run_dir.ELSEWHERE:
        return {"reason": "elsewhere", "detail": words}
    if verdict == albedo_run_dir.UNSURE:
        try:
            if time.time() - os.stat(run).st_mtime > YOUNG_SECONDS:
                verdict = albedo_run_dir.GONE
        except OSError:
            pass
    if verdict == albedo_run_dir.GONE:
        last = last_words(run)
        if os.path.isdir(run):
            import albedo_signal
            albedo_signal.end_run(run)
        return {"reason": "gone", "detail": f"{words}{': ' if last else ''}{last}"}
    return {"reason": "dropped", "detail": words}
