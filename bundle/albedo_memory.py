"""`memory` in cells: the workspace's notes, kept on the daemon's machine.

Each call travels over the link to the daemon and is applied there exactly once; it returns when the
daemon has stored it, and waits while the daemon is away. Searching is done here, where a pattern
that never ends can be interrupted.
"""
from __future__ import annotations

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Any

class Memory:
    """Notes that outlive the kernel: memory.md and a journal, kept for this workspace."""

    def __init__(self, channel) -> None:
        self._channel = channel

    def _call(self, method: str, args: dict) -> Any:
        return self._channel.ask("call", {"method": f"memory.{method}", "args": args})

    def read(self) -> str:
        """The whole of memory.md."""
        return self._call("read", {})

    def save(self, text: str) -> Any:
        """Replaces memory.md by the text."""
        return self._call("save", {"text": str(text)})

    def append(self, text: str) -> Any:
        """Adds the text and a newline to memory.md."""
        return self._call("append", {"text": str(text)})

    def journal(self, text: "str | None" = None, date: "str | None" = None) -> Any:
        """Adds the text to today's journal; without a text, reads the journal of a date (YYYY-MM-DD)."""
        args = {name: str(value) for name, value in (("text", text), ("date", date)) if value is not None}
        return self._call("journal", args)

    def grep(self, pattern: str) -> str:
        """Lines of this workspace's memory and of linked ones that match the regular expression."""
        import re  # here, not above: it costs every kernel's start some milliseconds
        wanted = re.compile(pattern)
        return "\n".join(
            f"{where}:{number}: {line}"
            for where, text in self._texts()
            for number, line in enumerate(text.splitlines(), 1)
            if wanted.search(line)
        )

    def search(self, query: str, limit: int = 20) -> str:
        """Paragraphs of this workspace and of linked ones with these words, most of them first."""
        import re
        words = {word.casefold() for word in re.findall(r"\w+", query)}
        found = []
        for where, text in self._texts():
            for start, paragraph in _paragraphs(text):
                held = words & {word.casefold() for word in re.findall(r"\w+", paragraph)}
                if held:
                    found.append((-len(held), len(found), f"{where}:{start}: {paragraph}"))
        return "\n\n".join(text for _, _, text in sorted(found)[:limit])

    def _texts(self) -> "list[tuple[str, str]]":
        """(name shown, text) of this workspace's memory, then of each linked one's."""
        return [
            (f"[{each['workspace']}] {each['name']}" if each["workspace"] else each["name"], each["text"])
            for each in self._call("texts", {})
        ]

    def __repr__(self) -> str:
        return "<memory: read, save, append, journal, grep, search>"


def _paragraphs(text: str) -> "list[tuple[int, str]]":
    """(first line's number, paragraph) for each run of lines that are not blank."""
    found: "list[tuple[int, str]]" = []
    lines: "list[str]" = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.strip():
            lines.append(line)
        elif lines:
            found.append((number - len(lines), "\n".join(lines)))
            lines = []
    return found
