"""How much of the time devices do anything: 1 − idle / (last − first activity), in the steps."""

from __future__ import annotations

from msgspec import Struct

from ..rule import Evidence, Rule
from ..spread import Spread, spread


class Busy(Struct, frozen=True):
    """The busy share of each device, and what it is of in words."""

    devices: Spread
    where: str


def _find(evidence: Evidence) -> Busy | None:
    found = spread(evidence.busy, "busy")
    return None if found is None else Busy(found, evidence.where)


def _sentence(found: Busy) -> str:
    are = "is" if len(found.devices.shares) == 1 else "are"
    return f"{found.devices.who} {are} busy {found.devices.text} of the time{found.where}."


RULE = Rule(
    "busy", "fact", _find, _sentence,
    rows=lambda found: tuple({"device": name, "busy": share} for name, share in found.devices.shares), view="idle",
)
