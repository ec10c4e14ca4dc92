"""How much of the kernel time is on tensor cores."""

from __future__ import annotations

from ..rule import Evidence, Rule
from ..spread import Spread, spread


def _find(evidence: Evidence) -> Spread | None:
    found = spread(evidence.devices, "tensor_share")
    return found if found is not None and found.highest[1] else None


def _sentence(found: Spread) -> str:
    return f"{found.text} of the kernel time on {found.who} is in kernels named after tensor cores."


RULE = Rule(
    "tensor cores", "fact", _find, _sentence,
    rows=lambda found: tuple({"device": name, "tensor_share": share} for name, share in found.shares), view="kernels",
)
