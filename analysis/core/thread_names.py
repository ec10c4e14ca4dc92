"""Thread labels: the thread's number and its recorded name."""

from __future__ import annotations

from ...loaders.trace import Trace
from .text import display

_MOST = 12  # Cells of a name (Linux keeps 15 characters): a timeline row has no room for more.


def thread_name(run: Trace, rank: object, pid: object, tid: object) -> str:
    """'thread 1234', preceded by its rank and followed by its recorded name, if any."""
    recorded = run.info.facts.get("threads", {}).get(f"{pid} {tid}")
    of = "" if rank is None else f"rank {rank} "
    return f"{of}thread {'?' if tid is None else tid}{f' {display(recorded, _MOST)}' if recorded else ''}"
