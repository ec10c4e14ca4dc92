"""The kernel that takes most device time."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ...core.names.short_name import fit_name
from ..rule import Evidence, Rule

_KERNEL = 40
"""Cells for the name of a kernel: about what the list below gives it, so that the eye finds it there."""


class Costliest(Struct, frozen=True):
    """A kernel, its share of the time of all devices 0-1, its time in ns and its launches on them."""

    name: str
    share: float
    total_ns: float
    count: int | None
    devices: int = 1


def _find(evidence: Evidence) -> Costliest | None:
    first = evidence.costliest or (evidence.top[0] if evidence.top else None)
    if first is None or not first["share"]:
        return None
    return Costliest(first["name"], first["share"], first["total_ns"], first["count"], first.get("devices") or 1)


def _sentence(found: Costliest) -> str:
    count = f" in {units.counted(found.count, 'launch', 'launches')}" if found.count else ""
    where, whose = ("the device", "its") if found.devices == 1 else (f"{units.count(found.devices)} devices", "their")
    share = f"{units.percent(100 * found.share)} of {whose} time"
    return (f"Costliest on {where}: {fit_name(found.name, _KERNEL)}, {share} "
            f"({units.duration(found.total_ns)}{count}).")


RULE = Rule(
    "costliest", "fact", _find, _sentence,
    rows=lambda found: ({"name": found.name, "share": found.share, "total_ns": found.total_ns},), view="kernels",
)
