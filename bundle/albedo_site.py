"""Makes the worker's modules and paths what plain `python3` in that folder would have.

The worker's interpreter starts with -I -S, so that nobody's PYTHONPATH can break it and it starts in
no time; what that left out is done here, before the first cell.
"""
import os
import sys


def set_paths(bundle_root: str) -> None:
    """sys.path: '', PYTHONPATH, the standard library, user site and site packages with their .pth
    files. A broken .pth or sitecustomize is told on stderr and costs only itself."""
    standard = [entry for entry in sys.path if entry and os.path.abspath(entry) != bundle_root]
    extra = os.environ.get("PYTHONPATH", "")
    sys.path[:] = ["", *[os.path.abspath(part) for part in extra.split(os.pathsep) if part], *standard]
    sys.argv = [""]
    try:
        import site
        known = site.removeduppaths()
        if "" not in sys.path:
            sys.path.insert(0, "")
        known = site.venv(known)
        if not os.environ.get("PYTHONNOUSERSITE") and os.getuid() == os.geteuid():
            site.ENABLE_USER_SITE = True
            known = site.addusersitepackages(known)
        else:
            site.ENABLE_USER_SITE = False
        site.addsitepackages(known)
        site.setquit()
        site.setcopyright()
        site.sethelper()
        site.execsitecustomize()
        if site.ENABLE_USER_SITE:
            site.execusercustomize()
    except Exception as error:
        os.write(2, f"site packages could not be set up: {type(error).__name__}: {error}\n".encode(
            "utf-8", "replace"))
    # removeduppaths makes '' absolute; plain python3 keeps it, so that chdir in a cell counts.
    here = os.getcwd()
    sys.path[:] = [entry for entry in sys.path if entry not in ("", here)]
    sys.path.insert(0, "")
