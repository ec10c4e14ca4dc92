"""The host waits for the device before it launches again, so that the device runs dry."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ...core.text import display
from ..evidence.waits import Waits
from ..rule import NO_CAUSES, WAITING, Evidence, Rule, Unchecked

_NAME = 112


class Drained(Struct, frozen=True):
    """The waits of a device whose queue was drained."""

    waits: Waits


def _find(evidence: Evidence) -> Drained | Unchecked | None:
    waits = evidence.measured.waits
    if waits is None or evidence.doubt is not None:
        return Unchecked(evidence.doubt or NO_CAUSES)
    return Drained(waits) if waits.share(waits.drained.idle_ns) > WAITING else None


def _sentence(found: Drained) -> str:
    waits, part = found.waits, found.waits.drained
    where = ""
    if part.sites:
        first = part.sites[0]
        times = units.counted(first.gaps, "gap", "gaps")
        where = f", most behind {display(first.who or '', _NAME)} ({units.duration(first.idle_ns)} in {times})"
    times = f"{units.duration(part.idle_ns)} of {units.duration(waits.window_ns)}{waits.where}"
    return (f"Synchronisation drains the queue: {display(waits.device or 'the device', 24)} is idle {times} for what "
            f"the host lost waiting for it{where}.")


RULE = Rule(
    "sync", "problem", _find, _sentence, rows=lambda found: found.waits.drained.rows,
    time_to_win_ns=lambda found: found.waits.drained.idle_ns, view="idle", filter="drained_by~. !cause=input",
)
