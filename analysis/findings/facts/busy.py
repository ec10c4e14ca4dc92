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
    devices = spread(evidence.busy, "busy")
    return None if devices is None else Busy(devices, evidence.where)


def _sentence(busy: Busy) -> str:
    are = "is" if len(busy.devices.shares) == 1 else "are"
    return f"{busy.devices.who} {are} busy {busy.devices.text} of the time{busy.where}."


RULE = Rule(
    "busy", "fact", _find, _sentence,
    rows=lambda busy: tuple({"device": name, "busy": share} for name, share in busy.devices.shares), view="idle",
)
