"""Kernels that leave SMs empty while they run."""

from __future__ import annotations

from ..rule import Evidence, Rule
from ..spread import Spread

FILLED = 0.6  # Grids are too small if kernels occupy less than this share of the SMs while they run.


def _find(evidence: Evidence) -> Spread | None:
    small = []
    for device in evidence.devices:
        used, filled = device.get("utilisation"), device.get("sm_efficiency")
        if used and filled is not None and filled / used < FILLED:
            small.append((str(device["device"] or "the device"), filled / used))
    return Spread(tuple(small)) if small else None


RULE = Rule(
    "small grids", "hint", _find,
    lambda occupied: f"On {occupied.who} kernels occupy {occupied.text} of the SMs: grids too small.",
    rows=lambda occupied: tuple({"device": name, "filled": share} for name, share in occupied.shares), view="kernels",
)
