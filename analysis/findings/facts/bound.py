"""What holds kernels back, by the time of those of which it is known."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ..rule import Evidence, Rule

LEAST = 0.005
"""Shares below this are not listed."""


class BoundShares(Struct, frozen=True):
    """Share of the kernel time per bound, 0-1, largest first."""

    shares: tuple[tuple[str, float], ...]


def _find(evidence: Evidence) -> BoundShares | None:
    shares = tuple((name, share) for name, share in evidence.bound.items() if share >= LEAST)
    return BoundShares(shares) if shares else None


def _sentence(found: BoundShares) -> str:
    parts = [f"{units.percent(100 * share, places=0)} {name}" for name, share in found.shares]
    return f"By what holds kernels back, of their time: {', '.join(parts)}."


RULE = Rule(
    "bound", "fact", _find, _sentence,
    rows=lambda found: tuple({"bound": name, "share": share} for name, share in found.shares), view="kernels",
)
