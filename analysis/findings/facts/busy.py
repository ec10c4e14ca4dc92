"""The busy share of devices in the steps: 1 − idle / (last − first activity)."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ..rule import Evidence, Rule
from ..spread import Spread, spread

TELLING = 0.05  # If the share of the whole recording differs by at least this, it is given as well.


class Busy(Struct, frozen=True):
    """The busy share of each device, and where it was measured, in words. ``of_ns`` is the time from first to last
    activity of a single device in the steps, if that is only a part of them."""

    devices: Spread
    where: str
    of_ns: int | None
    in_all: Spread | None = None
    recorded_ns: int = 0


def _find(evidence: Evidence) -> Busy | None:
    devices = spread(evidence.busy, "busy")
    if devices is None:
        return None
    in_all = spread(evidence.in_all, "busy")
    if in_all is None or abs(in_all.highest[1] - devices.highest[1]) < TELLING:
        in_all = None
    return Busy(devices, evidence.where, evidence.busy[0]["of_ns"] if len(devices.shares) == 1 else None, in_all,
                evidence.in_all[0]["of_ns"] if in_all else 0)


def _sentence(busy: Busy) -> str:
    are = "is" if len(busy.devices.shares) == 1 else "are"
    of = "the time" if busy.of_ns is None else (
        f"the {units.duration(busy.of_ns)} from its first to its last activity")
    in_all = "" if busy.in_all is None else (
        f"; {busy.in_all.text} of the {units.duration(busy.recorded_ns)} recorded in all")
    return f"{busy.devices.who} {are} busy {busy.devices.text} of {of}{busy.where}{in_all}."


RULE = Rule(
    "busy", "fact", _find, _sentence,
    rows=lambda busy: tuple({"device": name, "busy": share} for name, share in busy.devices.shares), view="idle",
)
