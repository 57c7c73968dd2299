"""Runs cells: one after the other, those that await beside each other.

A cell ends in exactly one `done` message. SIGINT raises KeyboardInterrupt only while a cell's code
runs; what user code did to the handler in between is kept for its next cell.
"""
from __future__ import annotations

import _signal
import builtins
import os
import sys
import types

import albedo_bundle
import albedo_channel
import albedo_compile
import albedo_memory
import albedo_run
import albedo_state
import albedo_trace
import albedo_value

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Any


def no_input(prompt: object = "") -> str:
    """Cells have no keyboard."""
    raise EOFError("a cell has no standard input: pass the text in the code")


class Cells:
    def __init__(self, channel, streams) -> None:
        self._channel = channel
        self._streams = streams
        self._sources = albedo_trace.Sources()
        self._definitions = albedo_state.Definitions()
        self._sigint: Any = _signal.default_int_handler
        self._signalled = True  # a SIGINT came while no cell's code ran; before we were there, perhaps
        self._tasks = None
        self._newest = ""
        self._tagged = False
        self._futures = 0
        self._count = 0
        self._pid = os.getpid()
        self._modules = 0
        self._c_flush = None
        module = types.ModuleType("__main__")
        self._module = module
        self.namespace = module.__dict__
        sys.modules["__main__"] = module
        sys.modules["albedo_bundle"] = albedo_bundle
        self._helpers = {"memory": albedo_memory.Memory(channel), "run": albedo_run.Run(channel, self.tasks, self._current_cell),
                         "input": no_input}
        self._builtins_size = 0
        os.register_at_fork(after_in_child=self._after_fork)

    # --- the loop ---

    def serve(self) -> None:
        """Takes messages until the keeper is gone."""
        channel = self._channel
        _signal.signal(_signal.SIGINT, self._between)
        while True:
            if self._tasks is not None and not channel.inbox and self._tasks.busy:
                _signal.signal(_signal.SIGINT, self._tasks.on_sigint)
                try:
                    self._tasks.run_until_message()
                except KeyboardInterrupt:
                    continue
                finally:
                    _signal.signal(_signal.SIGINT, self._between)
                if not channel.inbox:
                    continue
            message = channel.wait()
            if message.get("t") == "execute":
                self._execute(message["cell"], message["code"])
            elif message.get("t") == "interrupt" and self._tasks is not None:
                self._tasks.interrupt(message["cell"])
            elif message.get("t") == "save":
                self._save(message["path"], message["folder"])

    def _between(self, *_args) -> None:
        """SIGINT while no cell's code runs: too late for the last one, or early for the next."""
        self._signalled = True

    def _raise_early(self, cell: str) -> None:
        """An interrupt that names this cell may have come before its code began."""
        if self._signalled:
            self._signalled = False
            self._channel.fill()
            if any(message.get("t") == "interrupt" and message.get("cell") == cell
                   for message in self._channel.inbox):
                raise KeyboardInterrupt

    def tasks(self):
        """The event loop's owner, made when it is needed first."""
        if self._tasks is None:
            self._tasks = albedo_bundle.load("albedo_tasks").Tasks(self._channel, self._ended)
        return self._tasks

    def _after_fork(self) -> None:
        """In a child: it keeps the output, and has no voice towards the keeper."""
        try:
            os.close(self._channel.fd)
        except OSError:
            pass
        self._streams.after_fork()

    # --- from one kernel to the next ---

    def _remember(self, filename: str, code: str) -> None:
        self._sources.add(filename, code)
        self._definitions.add(filename, code)

    def _save(self, path: str, folder: str) -> None:
        """A SIGINT skips the value that is being saved."""
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        try:
            report = albedo_state.save(path, folder, self.namespace, self._definitions)
        except (OSError, KeyboardInterrupt) as error:
            report = {"error": f"its names cannot be saved: {type(error).__name__} {error}"}
        _signal.signal(_signal.SIGINT, self._between)
        self._channel.send({**report, "t": "saved"})

    def restore(self, path: str, folder: str) -> None:
        """What the session's last kernel here left. An interrupt ends it where it is."""
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
        self._prepare()
        report = albedo_state.restore(path, folder, self.namespace, self._remember)
        _signal.signal(_signal.SIGINT, self._between)
        if report is not None:
            self._channel.send({**report, "t": "restored"})

    # --- one cell ---

    def _prepare(self) -> None:
        if len(builtins.__dict__) != self._builtins_size:
            # A copy of the builtins with the helpers in it: deleting a name that hides a helper
            # brings the helper back, and the builtins module stays what it was.
            self._builtins_size = len(builtins.__dict__)
            self.namespace["__builtins__"] = {**builtins.__dict__, **self._helpers}
        if sys.modules.get("__main__") is not self._module:
            sys.modules["__main__"] = self._module
        self._streams.repair()

    def _execute(self, cell: str, code: str) -> None:
        self._count += 1
        filename = f"{albedo_trace.CELL_PREFIX}{self._count}>"
        self._newest = cell
        self._remember(filename, code)
        try:
            self._prepare()
            compiled = albedo_compile.compile_cell(code, filename, self._futures)
            self._futures = compiled.futures
        except BaseException as error:
            self._done(cell, "error", None, error)
            return
        if self._tasks is not None and self._tasks.live:
            self._tag_streams()
        if compiled.awaits:
            self._channel.send({"t": "awaits", "cell": cell})
            self.tasks().start(cell, self._run_awaiting(compiled))
        else:
            self._run(cell, compiled)

    def _run(self, cell: str, compiled) -> None:
        status, text, problem = "ok", None, None
        try:
            try:
                _signal.signal(_signal.SIGINT, self._sigint)
                self._raise_early(cell)
                value = None
                if compiled.body is not None:
                    exec(compiled.body, self.namespace)
                if compiled.last is not None:
                    value = eval(compiled.last, self.namespace)
                text = self._shown(value)
            finally:
                self._sigint = _signal.signal(_signal.SIGINT, self._between)
        except BaseException as error:
            status, problem = "error", error
        self._finish(cell, status, text, problem)

    async def _run_awaiting(self, compiled) -> "str | None":
        value = None
        for part in (compiled.body, compiled.last):
            if part is not None:
                value = eval(part, self.namespace)
                if part.co_flags & 0x80:
                    value = await value
        return self._shown(value if compiled.last is not None else None)

    def _ended(self, cell: str, outcome) -> None:
        """A cell that awaited has ended."""
        status, text, problem = "ok", None, None
        try:
            text = outcome()
        except BaseException as error:
            status, problem = "error", error
        self._finish(cell, status, text, problem)
        if self._tagged and not self._tasks.live:
            self._tagged = False
            self._streams.install()

    def _shown(self, value: Any) -> "str | None":
        if value is None:
            return None
        text = albedo_value.describe(value)
        self.namespace["_"] = value
        return text

    def _finish(self, cell: str, status: str, text, problem) -> None:
        try:
            if os.getpid() != self._pid:
                self._end_child(problem)
            self._done(cell, status, text, problem)
        except KeyboardInterrupt:
            self._done(cell, status, text, problem)

    def _done(self, cell: str, status: str, text: "str | None", problem: "BaseException | None") -> None:
        message = {"t": "done", "cell": cell, "status": status, "value": text, "error": None}
        if problem is not None:
            self._tell(message, problem)
        if "matplotlib.pyplot" in sys.modules:
            images = albedo_bundle.load("albedo_images").take_figures()
            if images:
                message["images"] = images
        self._streams.flush()
        self._flush_c()
        self._channel.send(message)

    def _tell(self, message: dict, problem: BaseException) -> None:
        if isinstance(problem, albedo_channel.KeeperGone):
            raise problem
        if isinstance(problem, SystemExit):
            code = problem.code
            if code is None or code == 0:
                message["status"] = "ok"
                return
            message["error"] = {"name": "SystemExit", "message": str(code)[:1000], "traceback": ""}
            return
        message["error"] = albedo_trace.describe(problem, self._sources)
        if isinstance(problem, KeyboardInterrupt):
            message["status"] = "interrupted"

    def _flush_c(self) -> None:
        """C's own buffers, once something that may print through them was loaded."""
        if len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            if self._c_flush is None and _c_code_loaded():
                try:
                    import ctypes
                    self._c_flush = ctypes.CDLL(None).fflush
                except Exception:
                    self._c_flush = lambda _all: 0
        if self._c_flush is not None:
            self._c_flush(None)

    def _tag_streams(self) -> None:
        if not self._tagged:
            self._tagged = True
            self._streams.install({"owner": self._older_cell, "send": self._send_tagged})

    def _current_cell(self) -> str:
        return (self._tasks.current_cell() if self._tasks is not None else None) or self._newest

    def _older_cell(self) -> "str | None":
        """The cell whose code runs, when it is not the newest: its prints need its name."""
        cell = self._tasks.current_cell()
        return cell if cell != self._newest else None

    def _send_tagged(self, cell: str, text: str) -> None:
        data = text.encode("utf-8", "albedo").decode("utf-8", "replace")
        for start in range(0, len(data), 65536):
            self._channel.send({"t": "out", "cell": cell, "text": data[start:start + 65536]})

    def _end_child(self, problem: "BaseException | None") -> None:
        """A fork of the worker has come to the end of the cell: it ends here."""
        code = 0
        if isinstance(problem, SystemExit):
            code = problem.code if isinstance(problem.code, int) else 0 if problem.code is None else 1
        elif problem is not None:
            code = 1
            sys.stderr.write(albedo_trace.describe(problem, self._sources)["traceback"])
        self._streams.flush()
        os._exit(code & 0xFF)


def _c_code_loaded() -> bool:
    """Whether a module of machine code outside the standard library is loaded, or ctypes itself."""
    if "_ctypes" in sys.modules:
        return True
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".so") and "lib-dynload" not in file:
            return True
    return False
