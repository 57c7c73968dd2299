"""Where these programs are on this host."""
import os

ROOT = os.path.dirname(os.path.abspath(__file__))
"""The staged bundle's folder; its name is the start of the bundle's digest."""

DIGEST = os.path.basename(ROOT)


def home_of_runs() -> str:
    """The folder that holds `run/`: above the bundle, and above `bundle/` where it lies in one."""
    above = os.path.dirname(ROOT)
    return os.path.dirname(above) if os.path.basename(above) == "bundle" else above
