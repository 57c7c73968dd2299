"""The worker: holds the user's namespace, runs its cells, and can break nothing but itself.

It talks to its keeper over one socket (albedo_channel.py) and prints into one pipe. It comes to be as
a fork of the keeper, or as a program of its own: `albedo_worker.py SOCKET LIFE`, two descriptors.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import _signal  # noqa: E402
import _socket  # noqa: E402

import albedo_bundle  # noqa: E402
import albedo_cells  # noqa: E402
import albedo_channel  # noqa: E402
import albedo_site  # noqa: E402
import albedo_streams  # noqa: E402

OOM_SCORE = "500"
NO_DISPLAY = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "BROWSER")
OF_ONE_CONNECTION = ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")


def end_with_keeper(life: int) -> None:
    """The whole group gets SIGKILL the moment the keeper's end of the pipe `life` closes, whatever
    code runs here. Linux only; elsewhere the group ends when it looks at its socket next."""
    import fcntl
    if not hasattr(fcntl, "F_SETSIG"):
        return
    fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(life, fcntl.F_SETSIG, _signal.SIGKILL)
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)


def ask_to_die_first() -> None:
    """When memory runs out this process is the one to end, not the keeper."""
    try:
        with open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file:
            if int(file.read()) < int(OOM_SCORE):
                file.seek(0)
                file.write(OOM_SCORE)
    except (OSError, ValueError):
        pass


def fitted_environment(env: dict, auth_socket: str) -> dict:
    """What a cell sees of the environment: no display, no terminal, nothing of one connection."""
    env = {name: value for name, value in env.items()
           if name not in NO_DISPLAY and name not in OF_ONE_CONNECTION}
    if auth_socket and env.get("SSH_AUTH_SOCK"):
        env["SSH_AUTH_SOCK"] = auth_socket
    env["TERM"] = "dumb"
    env.setdefault("MPLBACKEND", "agg")
    env.setdefault("GIT_TERMINAL_PROMPT", "0")
    return env


def set_up(channel: albedo_channel.Channel, setup: dict) -> None:
    """Folder, environment, limits, paths, as the keeper's first message says; tells the keeper."""
    ready: dict = {"t": "ready", "pid": os.getpid()}
    env = setup["env"]
    if setup.get("login"):
        import albedo_env
        found, note = albedo_env.login_environment(env)
        if note:
            ready["note"] = note
        env = found
    env = fitted_environment(env, setup.get("auth_socket", ""))
    if setup.get("login") is not None:
        ready["env"] = env
    if dict(os.environ) != env:
        os.environ.clear()
        os.environ.update(env)
    os.chdir(setup["folder"])
    os.environ["PWD"] = setup["folder"]
    os.environ.pop("OLDPWD", None)
    if setup.get("nofile"):
        import albedo_spawn
        albedo_spawn.set_open_files(int(setup["nofile"]))
    ask_to_die_first()
    albedo_site.set_paths(albedo_bundle.ROOT)
    channel.send(ready)


def run(socket_fd: int, life: int) -> None:
    """Serves cells until the keeper's end closes. Does not return."""
    code = 0
    pid = os.getpid()
    try:
        _signal.signal(_signal.SIGINT, lambda *_args: None)  # until there are cells
        for number in (_signal.SIGPIPE, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGCHLD):
            _signal.signal(number, _signal.SIG_IGN if number == _signal.SIGPIPE else _signal.SIG_DFL)
        end_with_keeper(life)
        import faulthandler
        faulthandler.enable(2)
        channel = albedo_channel.Channel(_socket.socket(fileno=socket_fd))
        setup = channel.wait()
        set_up(channel, setup)
        cells = albedo_cells.Cells(channel, albedo_streams.Streams())
        if setup.get("restore") and os.path.exists(setup["restore"]):
            cells.restore(setup["restore"], setup["folder"])
        cells.serve()
    except albedo_channel.KeeperGone:
        pass
    except BaseException as error:
        code = 1
        import traceback
        os.write(2, "".join(traceback.format_exception(error)).encode("utf-8", "replace"))
    if os.getpid() == pid and code == 0:
        try:
            os.killpg(os.getpgrp(), _signal.SIGKILL)  # the keeper is gone: its cells' children go too
        except OSError:
            pass
    os._exit(code)


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]))
