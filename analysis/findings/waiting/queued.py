"""Work was launched long before and did not start: the device waits for an event, another stream or a peer."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ...core.names.short_name import fit_name
from ...core.text import display
from ..evidence.waits import Waits
from ..rule import BLAME, IDLE, Evidence, Rule

_KERNEL = 40


class Queued(Struct, frozen=True):
    """The waits of a device that had work and did not start it."""

    waits: Waits

    @property
    def idle_ns(self) -> int:
        """How long it waited so."""
        return self.waits.causes["queued"]


def _find(evidence: Evidence) -> Queued | None:
    waits = evidence.measured.waits
    if waits is None or evidence.doubt is not None or waits.share(waits.idle_ns) <= IDLE:
        return None
    return Queued(waits) if waits.causes.get("queued", 0) > BLAME * waits.idle_ns else None


def _sentence(found: Queued) -> str:
    waits, part = found.waits, found.waits.queued
    where = ""
    if part.sites:
        first = part.sites[0]
        times = units.counted(first.gaps, "gap", "gaps")
        where = f"; most before {fit_name(first.who or '', _KERNEL)} ({units.duration(first.idle_ns)} in {times})"
    times = f"{units.duration(found.idle_ns)} of {units.duration(waits.window_ns)}{waits.where}"
    return (f"Launched work does not start: {display(waits.device or 'the device', 24)} is idle {times} with work "
            f"launched long before, as if for an event, another stream or a peer{where}.")


RULE = Rule(
    "queued", "hint", _find, _sentence, rows=lambda found: found.waits.queued.rows,
    time_to_win_ns=lambda found: found.idle_ns, view="idle", filter="cause=queued",
)
