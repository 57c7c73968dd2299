"""Where these programs are on this host."""
import os
import sys

ROOT = os.path.dirname(os.path.abspath(__file__))
"""The staged bundle's folder; its name is the start of the bundle's digest."""

DIGEST = os.path.basename(ROOT)


def home_of_runs() -> str:
    """The folder that holds `run/`: above the bundle, and above `bundle/` where it lies in one."""
    above = os.path.dirname(ROOT)
    return os.path.dirname(above) if os.path.basename(above) == "bundle" else above


def load(name: str):
    """A module of the bundle, from the worker, whose sys.path is the user's and does not name it."""
    if name in sys.modules:
        return sys.modules[name]
    sys.path.insert(0, ROOT)
    try:
        return __import__(name)
    finally:
        sys.path.remove(ROOT)
