"""Device activities that begin before their launch call: host and device clocks do not agree."""

from __future__ import annotations

from ...core import units
from ..rule import IDLE, Evidence, Rule


def _sentence(evidence: Evidence) -> str:
    early, launched = units.count(evidence.early), units.count(evidence.launched)
    clocks = f"clocks of host and device disagree: {early} of {launched} device activities begin before their launch"
    waits = evidence.measured.waits
    if waits is None or waits.share(waits.idle_ns) <= IDLE:
        return f"The {clocks}, so the causes of idle time are unknown."
    return f"{waits.who} is idle {waits.of(waits.idle_ns)}; what it waits for is unknown, because the {clocks}."


RULE = Rule(
    "clocks", "problem", lambda evidence: evidence if evidence.clocks_disagree else None, _sentence, view="launches",
    cost_ns=lambda evidence: evidence.measured.waits.idle_ns if evidence.measured.waits is not None else None)
