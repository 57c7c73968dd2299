"""`memory` in cells: the workspace's notes, kept on the daemon's machine.

Each call travels over the link to the daemon and is applied there exactly once; it returns when the
daemon has stored it, and waits while the daemon is away.
"""
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
        """Lines of this workspace and of linked ones that match the regular expression."""
        return self._call("grep", {"pattern": str(pattern)})

    def search(self, query: str, limit: int = 20) -> str:
        """Paragraphs of this workspace and of linked ones that hold these words."""
        return self._call("search", {"query": str(query), "limit": int(limit)})

    def __repr__(self) -> str:
        return "<memory: read, save, append, journal, grep, search>"
