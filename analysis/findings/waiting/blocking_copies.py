"""Copies that block the host and so let the device run idle: the call returns when all queued work is done.

If the device has work all the time, such a copy costs nothing and is not mentioned. Its cost is idle time, which other
rules report as well; this one says what to change.
"""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ...core.text import display
from ...idle.causes import function
from ..evidence.copies import Blocking
from ..rule import WAITING, Evidence, Rule, Unchecked


class BlockingCopies(Struct, frozen=True):
    """The copies, and the idle time (ns) after calls that waited for the device."""

    copies: Blocking
    idle_ns: int


def _find(evidence: Evidence) -> BlockingCopies | None:
    copies, waits = evidence.measured.blocking, evidence.attributed
    if copies is None or isinstance(waits, Unchecked) or copies.host_ns <= WAITING * copies.window_ns:
        return None
    idle_ns = waits.drained.idle_ns + waits.emptied.idle_ns
    return BlockingCopies(copies, idle_ns) if waits.share(idle_ns) > WAITING else None


def _sentence(blocking: BlockingCopies) -> str:
    some = blocking.copies
    kind = "pageable " if some.pageable == some.count else ""
    size = f" ({units.size(some.bytes)})" if some.bytes else ""
    advice = "Pinned memory and non_blocking=True let" if some.pageable else "Asynchronous copies let"
    copies = units.counted(some.count, f"{kind}copy", f"{kind}copies")
    parts = [f"{units.duration(some.copy_ns)} to copy"]
    if some.queued_ns > some.copy_ns:
        parts.insert(0, f"{units.duration(some.queued_ns)} until queued work was done")
    return (f"{copies}{size} {'blocks' if some.count == 1 else 'block'} the host for "
            f"{units.part_of(some.host_ns, some.window_ns)} in {display(function(some.call), 40)}: "
            f"{', '.join(parts)}. {advice} the host launch on.")


RULE = Rule(
    "blocking copies", "problem", _find, _sentence, rows=lambda found: found.copies.rows,
    cost_ns=lambda found: min(found.copies.host_ns, found.idle_ns), view="calls", filter="purpose=copy sync_ns>0",
    change=lambda _: "sync:Memcpy|StreamSynchronize=0",  # without StreamSynchronize the wait would only move there
)
