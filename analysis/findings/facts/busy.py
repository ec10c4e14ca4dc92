"""How much of the time devices run kernels."""

from __future__ import annotations

from ..rule import Evidence, Rule
from ..spread import Spread, spread


def _find(evidence: Evidence) -> Spread | None:
    return spread(evidence.devices, "utilisation")


def _sentence(found: Spread) -> str:
    over = " of kernels, some at the same time" if found.highest[1] > 1 else ""
    runs = "runs" if len(found.shares) == 1 else "run"
    return f"{found.who} {runs} kernels {found.text} of the time{over}."


RULE = Rule(
    "busy", "fact", _find, _sentence,
    rows=lambda found: tuple({"device": name, "utilisation": share} for name, share in found.shares), view="kernels",
)
