#!/usr/bin/env python3
"""Includes run one way, and a third-party library is named by the files that own it.

`include_arrows.py` looks at the whole tree; `include_arrows.py --self-test` shows that each rule
can fail. Prints one line per forbidden include; exits 1 when there is one.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# What each folder may include of ours.
ARROWS = {
    "shared": {"shared"},
    "supervisor": {"shared", "supervisor"},
    "hostagent": {"shared", "hostagent"},
    "api": {"shared", "api"},
    "cli": {"shared", "cli"},
}

# A library's header, and the files that own it (a folder ends in a slash). Tests may use all.
OWNERS = {
    r"sqlite3\.h": ("api/store/",),
    r"httplib\.h": ("api/http/", "api/providers/", "cli/client.cpp"),
    r"CLI/.*": ("cli/arguments.cpp",),
    r"boost/interprocess/.*": ("shared/sealed_memory.cpp",),
    r"cereal/.*": ("shared/",),
    r"openssl/.*": ("api/", "shared/ids.cpp", "hostagent/"),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def violations(root: Path) -> list[str]:
    found = []
    for folder, allowed in ARROWS.items():
        for source in sorted((root / folder).rglob("*")):
            if source.suffix not in (".h", ".cpp"):
                continue
            name = source.relative_to(root).as_posix()
            for number, text in enumerate(source.read_text(errors="replace").splitlines(), 1):
                match = INCLUDE.match(text)
                if not match:
                    continue
                header = match.group(1)
                first = header.split("/")[0]
                if first in ARROWS and first not in allowed:
                    found.append(f"{name}:{number}: {folder} may not include {header}")
                for library, owners in OWNERS.items():
                    if re.fullmatch(library, header) and not name.startswith(owners):
                        found.append(f"{name}:{number}: {header} belongs to {', '.join(owners)}")
                if header.startswith("..") or header.startswith("./"):
                    found.append(f"{name}:{number}: {header} is not named from the top of the tree")
    return found


def self_test() -> list[str]:
    """The rules that do not catch a file made to break them."""
    bad = {
        "shared/a.h": "api/store/database.h",
        "supervisor/a.cpp": "hostagent/agent.h",
        "hostagent/a.cpp": "api/main.h",
        "api/sessions/a.cpp": "sqlite3.h",
        "cli/a.cpp": "CLI/CLI.hpp",
        "cli/b.cpp": "supervisor/home.h",
        "api/b.cpp": "../shared/ids.h",
    }
    silent = []
    for name, header in bad.items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, name)
            file.parent.mkdir(parents=True)
            file.write_text(f'#include "{header}"\n')
            if len(violations(Path(folder))) != 1:
                silent.append(f"{name} including {header} was not caught")
    return silent


if __name__ == "__main__":
    lines = self_test() if "--self-test" in sys.argv[1:] else violations(ROOT)
    print("\n".join(lines))
    sys.exit(1 if lines else 0)
