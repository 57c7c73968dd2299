"""The keeper's program: waits for a start request on its stdin, then is that kernel's keeper.

    python3 -I -S albedo_kernel.py        stdin: a socket that speaks frames

Started by a bridge as its first statement, so that both import at once; nothing is decided before
the request is there, and without one it ends.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

try:
    os.setsid()
except OSError:
    pass  # it is the leader of a session already

import _signal  # noqa: E402
import _socket  # noqa: E402

import albedo_frames  # noqa: E402
import albedo_json  # noqa: E402
import albedo_keeper  # noqa: E402
import albedo_run_dir  # noqa: E402
import albedo_worker_process  # noqa: E402

READ_BYTES = 64 * 1024


def read_request(decoder: albedo_frames.Decoder) -> "dict | None":
    """The start request; None when the bridge ends without one."""
    while True:
        frame = decoder.next()
        if frame is not None:
            return albedo_json.loads(frame[4]) if frame[1] == albedo_frames.START else None
        piece = os.read(0, READ_BYTES)
        if not piece:
            return None
        decoder.feed(piece)


def refuse(socket, run: str, reason: str, detail: str) -> None:
    """Tells the bridge why there is no kernel, and leaves nothing behind."""
    albedo_run_dir.remove_run(run)
    socket.sendall(albedo_frames.encode(0, albedo_frames.CLOSED, 0, 0, albedo_json.dumps(
        {"reason": reason, "detail": detail})))


def keep() -> None:
    """Returns at the kernel's end. BecomeWorker comes out of it in the worker."""
    for number in (_signal.SIGPIPE, _signal.SIGHUP, _signal.SIGINT):
        _signal.signal(number, _signal.SIG_IGN)
    _signal.signal(_signal.SIGTERM, _signal.SIG_DFL)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    decoder = albedo_frames.Decoder()
    request = read_request(decoder)
    if request is None:
        return
    socket = _socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    run = request["run"]
    if not os.path.isdir(request["folder"]):
        refuse(socket, run, "no_folder", f"{request['folder']} is not a folder")
        return
    try:
        os.chdir(run)
        log = os.open(albedo_run_dir.LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 2)
        os.close(log)
        keeper = albedo_keeper.Keeper(request, run)
        keeper.begin()
    except OSError as error:
        refuse(socket, run, "failed", f"the kernel did not start: {error}")
        return
    keeper.adopt(socket, decoder)
    while keeper.loop.running:
        try:
            keeper.loop.turn()
        except Exception as error:  # a fault of ours costs that event, not the kernel
            import traceback
            keeper.log("".join(traceback.format_exception(error)))


def main() -> None:
    worker = None
    try:
        keep()
    except albedo_worker_process.BecomeWorker as become:
        worker = (become.socket_fd, become.life)
    if worker is not None:
        import albedo_worker
        albedo_worker.run(*worker)


if __name__ == "__main__":
    main()
