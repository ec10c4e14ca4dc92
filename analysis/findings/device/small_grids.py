"""Kernels that leave multiprocessors empty while they run."""

from __future__ import annotations

from ..rule import Evidence, Rule
from ..spread import Spread

FILLED = 0.6
"""Below this share of multiprocessors with work, while kernels run, grids are too small."""


def _find(evidence: Evidence) -> Spread | None:
    small = []
    for device in evidence.devices:
        used, filled = device.get("utilisation"), device.get("sm_efficiency")
        if used and filled is not None and filled / used < FILLED:
            small.append((str(device["device"] or "The device"), filled / used))
    return Spread(tuple(small)) if small else None


def _sentence(found: Spread) -> str:
    fill = "they fill" if len(found.shares) == 1 else "these fill"
    whose = "its" if len(found.shares) == 1 else "their"
    return f"While kernels run on {found.who} {fill} {found.text} of {whose} multiprocessors: grids are small."


RULE = Rule(
    "small grids", "hint", _find, _sentence,
    rows=lambda found: tuple({"device": name, "filled": share} for name, share in found.shares), view="kernels",
)
