"""Devices wait because the host does not launch in time: launch-bound stretches, and where in the code they are."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ...core.names.short_name import short_name
from ...core.text import display
from ..evidence.waits import Waits
from ..rule import NO_CAUSES, Evidence, Rule, Unchecked

BEHIND = 0.15
"""Share of a device's window that the host must be behind to be mentioned."""
_NAME = 72
LAUNCH_NS = 100_000
"""Gaps shorter than this on average are the cost of launching; longer ones are other work of the host."""


class HostBehind(Struct, frozen=True):
    """The waits of a device of whose gaps no synchronisation, but the host's pace, is the cause."""

    waits: Waits
    median_kernel_ns: float | None


def _find(evidence: Evidence) -> HostBehind | Unchecked | None:
    waits = evidence.measured.waits
    if waits is None or evidence.doubt is not None:
        return Unchecked(evidence.doubt or NO_CAUSES)
    return HostBehind(waits, evidence.median_kernel_ns) if waits.share(waits.behind.idle_ns) > BEHIND else None


def _sentence(found: HostBehind) -> str:
    waits, part = found.waits, found.waits.behind
    where = ""
    if part.sites:
        first = part.sites[0]
        line = f"at {short_name(first.frame)}, " if first.frame and first.who else ""
        place = f"{line}before {first.who}"
        times = units.counted(first.gaps, "gap", "gaps")
        where = f"; most {display(place, 2 * _NAME)} ({units.duration(first.idle_ns)} in {times})"
    short = ""
    if found.median_kernel_ns is not None:
        short = f", median kernel {units.duration(found.median_kernel_ns)}"
    bound = "Launch-bound" if part.idle_ns < LAUNCH_NS * part.gaps else "Bound by the host"
    return (f"{bound}: {display(waits.device or 'the device', 24)} waits {units.duration(part.idle_ns)} of "
            f"{units.duration(waits.window_ns)}{waits.where} for the next launch{short}{where}.")


RULE = Rule(
    "host", "problem", _find, _sentence, rows=lambda found: found.waits.behind.rows,
    time_to_win_ns=lambda found: found.waits.behind.idle_ns, view="idle", filter="!cause=input",
)
