"""The environment as it was given to this process, without what Python adds to it."""
import os


def given() -> dict:
    """os.environ without the LC_CTYPE that Python sets in the C locale (PEP 538).

    Everything else started from here would inherit it and answer in another locale than the user's."""
    env = dict(os.environ)
    if "LC_CTYPE" in env:
        try:
            with open("/proc/self/environ", "rb") as file:
                first = file.read()
            added = b"\0LC_CTYPE=" not in b"\0" + first
        except OSError:
            added = env["LC_CTYPE"] in ("C.UTF-8", "C.utf8", "UTF-8") and not env.get("LC_ALL") \
                and env.get("LANG", "C") in ("", "C", "POSIX")
        if added:
            del env["LC_CTYPE"]
    return env
