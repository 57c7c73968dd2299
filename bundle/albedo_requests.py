"""What an attached api asks of a keeper without numbers: pages of a log, and queries.

Each answer is lost with its attachment (docs/PROTOCOL.md).
"""
from __future__ import annotations

import os
from _struct import Struct

import albedo_output
import albedo_readers

TYPE_CHECKING = False  # what only a type checker reads costs no start-up time
if TYPE_CHECKING:
    from typing import Callable

MAX_PAGE_BYTES = 1024 * 1024
PAGE_HEAD = Struct(">Q16sQB")
PAGE_END, PAGE_GONE, PAGE_NO_CELL = 1, 2, 4


def page(cells, request: dict) -> bytes:
    """The payload of the answer. Raises KeyError, TypeError, ValueError for a request that is none."""
    cell, offset = request["cell"], int(request["offset"])
    limit = max(1, min(int(request["limit"]), MAX_PAGE_BYTES))
    flags, data = 0, b""
    log = cells.log(cell)
    if log is None:
        flags = PAGE_NO_CELL
    else:
        try:
            data = log.read(offset, limit)
            if cells.has_ended(cell) and offset + len(data) >= log.size:
                flags = PAGE_END
        except albedo_output.Gone as gone:
            flags, data = PAGE_GONE, str(gone).encode()
    return PAGE_HEAD.pack(int(request["id"]), albedo_readers.cell_bytes(cell), offset, flags) + data


def query(keeper, request: dict, answer: Callable) -> None:
    """`answer(...)` to `stats`, `jobs` or `stop_job`, now or, of the last, when it has settled."""
    reply = {"id": request["id"], "ok": True}
    op = request.get("op")
    if op == "stats":
        reply.update(pid=os.getpid(), worker=keeper.worker.pid, running=list(keeper.cells.running),
                     jobs=len(keeper.jobs.running), outbox_bytes=keeper.link.outbox_bytes, note=keeper.note)
    elif op == "jobs":
        reply["jobs"] = keeper.jobs.all_rows()
    elif op == "stop_job":
        if keeper.jobs.stop(int(request.get("job", 0)), lambda result: answer({**reply, "stopped": result})):
            return
        reply["stopped"] = None
    else:
        reply = {"id": request["id"], "ok": False, "error": f"there is no query {op}"}
    answer(reply)
