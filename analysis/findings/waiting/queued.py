"""Queued work that does not start: the device waits for an event, another stream or a peer."""

from __future__ import annotations

from ...core.names.short_name import fit_name
from ..evidence.waits import Waits
from ..rule import BLAME, IDLE, Evidence, Rule, Unchecked

_KERNEL = 40


def _find(evidence: Evidence) -> Waits | None:
    waits = evidence.attributed
    if isinstance(waits, Unchecked) or waits.share(waits.idle_ns) <= IDLE:
        return None
    return waits if waits.queued.idle_ns > BLAME * waits.idle_ns else None


def _sentence(waits: Waits) -> str:
    where = waits.queued.most(lambda site: f"; most before {fit_name(site.who or '', _KERNEL)}")
    once = waits.queued.sites[0].gaps == 1 if waits.queued.sites else False  # as if the recording began amid work
    by = "another stream, a peer or work from before the recording" if once else "another stream or a peer"
    return (f"Queued work is blocked for {waits.of(waits.queued.idle_ns)} on {waits.who}, probably on an event, "
            f"{by}{where}.")


RULE = Rule(
    "queued", "hint", _find, _sentence, rows=lambda waits: waits.queued.rows,
    cost_ns=lambda waits: waits.queued.idle_ns, view="idle", filter="cause=queued",
)
