"""Synchronisation: the host waits for the device before it launches again, so the device's queue runs empty."""

from __future__ import annotations

from ...core.text import display
from ..evidence.waits import Waits
from ..rule import WAITING, Evidence, Rule, Unchecked

_NAME = 112


def _find(evidence: Evidence) -> Waits | Unchecked | None:
    waits = evidence.attributed
    return waits if isinstance(waits, Unchecked) or waits.share(waits.drained.idle_ns) > WAITING else None


def _sentence(waits: Waits) -> str:
    where = waits.drained.most(lambda site: f", most in {display(site.who or '', _NAME)}")
    return (f"Synchronisation empties the queue: {waits.who} is idle {waits.of(waits.drained.idle_ns)} because the "
            f"host waited for it{where}.")


RULE = Rule(
    "sync", "problem", _find, _sentence, rows=lambda waits: waits.drained.rows,
    cost_ns=lambda waits: waits.drained.idle_ns, view="idle", filter="drained_by~. !cause=input",
    change=lambda _: "sync:=0",
)
