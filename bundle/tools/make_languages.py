#!/usr/bin/env python3
"""Write ../albedo_languages.py from the npm package linguist-languages.

    bundle/tools/make_languages.py            needs npm and node, and the network

A development-time tool: its output is committed. The package carries GitHub linguist's language
list; only languages of type programming and markup are taken, as linguist counts them in a
repository's language bar. An extension that several languages claim goes to the one that names it
first in its own list; where that leaves more than one, `PREFERRED` decides, then the alphabet.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

PACKAGE = "linguist-languages"
VERSION = "9.5.0"
TARGET = Path(__file__).resolve().parent.parent / "albedo_languages.py"

# What a reader expects of extensions that several languages list first or all list late.
PREFERRED = {
    ".bas": "Visual Basic 6.0", ".cls": "TeX", ".cs": "C#", ".d": "D", ".f": "Fortran",
    ".for": "Fortran", ".fs": "F#", ".g": "GAP", ".h": "C", ".hh": "C++", ".inc": "PHP",
    ".l": "Lex", ".lisp": "Common Lisp", ".m": "Objective-C", ".ml": "OCaml", ".mod": "Modula-2",
    ".pl": "Perl", ".pm": "Perl", ".pp": "Puppet", ".pro": "Prolog", ".q": "q", ".r": "R",
    ".rs": "Rust", ".s": "Assembly", ".sc": "Scala", ".sql": "SQL", ".md": "Markdown", ".t": "Perl",
    ".ts": "TypeScript", ".tsx": "TSX", ".v": "Verilog", ".vue": "Vue", ".y": "Yacc",
    ".html": "HTML", ".xml": "XML", ".php": "PHP", ".asm": "Assembly", ".cl": "OpenCL",
    ".cp": "C++", ".e": "Eiffel", ".ms": "Roff", ".st": "Smalltalk", ".tl": "Teal",
}

HEADER = '''"""Languages by file name: GitHub linguist's programming and markup kinds.

Made by tools/make_languages.py from the npm package {package} {version}; do not edit.
One language a line: name, extensions, whole file names, tab-separated; longest extension wins.
"""

SOURCE = "{package} {version}"

TABLE = """\\
'''

FOOTER = '''"""


def load() -> tuple[dict[str, str], dict[str, str]]:
    """({extension in lower case: language}, {whole file name: language})."""
    extensions: dict[str, str] = {}
    names: dict[str, str] = {}
    for line in TABLE.splitlines():
        language, suffixes, whole = line.split("\\t")
        extensions.update((suffix, language) for suffix in suffixes.split())
        names.update((name, language) for name in whole.split("|") if name)
    return extensions, names


def language_of(name: str, tables: tuple[dict[str, str], dict[str, str]]) -> str | None:
    """The language of a file called `name` (no folders), or None."""
    extensions, names = tables
    if name in names:
        return names[name]
    lower = name.lower()
    dot = lower.find(".", 1)
    while dot > 0:
        if lower[dot:] in extensions:
            return extensions[lower[dot:]]
        dot = lower.find(".", dot + 1)
    return None
'''


def download(folder: Path) -> list[dict]:
    packed = subprocess.run(
        ["npm", "pack", "--silent", f"{PACKAGE}@{VERSION}"],
        cwd=folder, check=True, capture_output=True, text=True,
    ).stdout.split()[-1]
    subprocess.run(["tar", "xf", packed], cwd=folder, check=True)
    dump = (
        "import * as all from './package/index.js';"
        "console.log(JSON.stringify(Object.values(all.default ?? all)))"
    )
    listed = subprocess.run(
        ["node", "--input-type=module", "-e", dump],
        cwd=folder, check=True, capture_output=True, text=True,
    ).stdout
    return json.loads(listed)


def assign(languages: list[dict]) -> dict[str, str]:
    """Each extension's one language."""
    claims: dict[str, list[tuple[int, str]]] = {}
    for language in languages:
        for place, suffix in enumerate(language.get("extensions", [])):
            claims.setdefault(suffix.lower(), []).append((min(place, 1), language["name"]))
    names = {language["name"] for language in languages}
    chosen = {}
    for suffix, claimed in claims.items():
        preferred = PREFERRED.get(suffix)
        chosen[suffix] = preferred if preferred in names else min(claimed)[1]
    return chosen


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        languages = download(Path(folder))
    chosen = assign(languages)  # over all kinds: `.md` is Markdown's, though prose does not count
    lines = []
    counted = (each for each in languages if each["type"] in ("programming", "markup"))
    for language in sorted(counted, key=lambda each: each["name"]):
        name = language["name"]
        suffixes = sorted(suffix for suffix, owner in chosen.items() if owner == name)
        whole = sorted(language.get("filenames", []))
        if suffixes or whole:
            lines.append(f"{name}\t{' '.join(suffixes)}\t{'|'.join(whole)}")
    text = HEADER.format(package=PACKAGE, version=VERSION) + "\n".join(lines) + "\n" + FOOTER
    TARGET.write_text(text, encoding="utf-8")
    print(f"{TARGET}: {len(lines)} languages, {len(chosen)} extensions")


if __name__ == "__main__":
    main()
