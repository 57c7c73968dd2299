"""A keeper that waits for its request: started early, it has imported all it needs when one comes."""
import os
import sys

import _socket

import albedo_environ

HERE = os.path.dirname(os.path.abspath(__file__))


def start_blank():
    """(pid, socket to it). It ends by itself when the socket closes without a request.

    Raises OSError."""
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    python = sys.executable or "/usr/bin/env"
    argv = [python, "-I", "-S", os.path.join(HERE, "albedo_kernel.py")]
    if not sys.executable:
        argv.insert(1, "python3")
    try:
        pid = os.posix_spawn(python, argv, albedo_environ.given(), file_actions=[
            (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)])
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    return pid, ours
