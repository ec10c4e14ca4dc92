"""The kernel that takes most device time."""

from __future__ import annotations

from typing import Any

from ...core import units
from ...core.names.short_name import fit_name
from ..rule import Evidence, Rule

_KERNEL = 40  # Width of a kernel name: about that of the list below, so that the eye finds it there.


def _find(evidence: Evidence) -> dict[str, Any] | None:
    first = evidence.costliest or (evidence.top[0] if evidence.top else None)
    if first is None or not first["share"]:
        return None
    return first | {"within": evidence.where if first is evidence.costliest else ""}


def _sentence(kernel: dict[str, Any]) -> str:
    count = f" in {units.counted(kernel['count'], 'launch', 'launches')}" if kernel["count"] else ""
    devices = kernel.get("devices") or 1
    whose = "device time" if devices == 1 else f"the time of {units.count(devices)} devices"
    what = kernel.get("kind") if kernel.get("kind") in ("kernel", "collective") else "activity"
    return (f"Top {what}: {fit_name(kernel['name'], _KERNEL)}, {units.percent(100 * kernel['share'])} of {whose}"
            f"{kernel['within']} ({units.duration(kernel['total_ns'])}{count}).")


RULE = Rule(
    "costliest", "fact", _find, _sentence,
    rows=lambda kernel: ({name: kernel[name] for name in ("name", "share", "total_ns")},), view="kernels",
)
