"""What threads are called: by their number, and the name that was recorded for them."""

from __future__ import annotations

from ...loaders.trace import Trace
from .text import display

_MOST = 12  # Cells of a name, which Linux keeps 15 letters of: a line of the timeline has no room for more.


def thread_name(run: Trace, rank: object, pid: object, tid: object) -> str:
    """'thread 1234', with its rank before it and its recorded name behind."""
    recorded = run.info.facts.get("threads", {}).get(f"{pid} {tid}")
    of = "" if rank is None else f"rank {rank} "
    return f"{of}thread {'?' if tid is None else tid}{f' {display(recorded, _MOST)}' if recorded else ''}"
