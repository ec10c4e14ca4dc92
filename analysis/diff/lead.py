"""The headline number of the verdict, and which of its lines are good or bad."""

from __future__ import annotations

from collections.abc import Sequence

from ..contract.view import Judgement, Lead
from ..core import units
from .cycle_time import CycleTime
from .device_work import CHANGED, DeviceWork

_CYCLES: dict[str, Judgement] = {
    "slower": "bad", "faster": "good", "unchanged": "same", "cannot tell": "unchecked", "not judged": "unchecked",
}


def cycle_lead(cycles: CycleTime | None) -> Lead | None:
    """The factor of the cycle time if it changed, else B's mean; None without cycle times."""
    if cycles is None:
        return None
    judged, unit = _CYCLES[cycles.verdict], cycles.unit or "cycle"
    if judged in ("bad", "good"):
        return Lead(units.factor(cycles.ratio), f"{unit} time", judged)
    before = f"{units.sentence_unit()}, {units.figure(cycles.compared_a_ms)} in A"
    return Lead(units.figure(cycles.compared_b_ms), before, judged)


def lead_of(cycles: CycleTime | None, work: Sequence[DeviceWork], resource: bool, idle: bool) -> Lead | None:
    """The cycle's factor if it changed, else that of the device whose work changed most; with its lines judged.

    ``resource`` and ``idle``: whether the cause is a resource, and whether it is idle time.
    """
    lead = cycle_lead(cycles)
    if lead is None:
        return None
    most = max((one for one in work if one.ratio), key=lambda one: abs(one.delta_ms), default=None)
    lines: dict[str, Judgement] = {"Cycle": lead.judgement, "Work": lead.judgement, "Step": lead.judgement}
    if lead.judgement == "same" and cycles is not None and cycles.slow_in_b:
        lines["Cycle"] = "look"
    if most is not None and most.ratio is not None:
        grown = most.ratio - 1
        judged: Judgement = "same" if abs(grown) <= CHANGED else "good" if grown < 0 else (
            "bad" if most.path == "exposed" else "look")
        if cycles is not None and cycles.verdict == "not judged":
            judged = "unchecked"  # less work is no gain where it is other work
        lines[(most.device or "Device").split()[0]] = judged
        if lead.judgement == "same" and judged != "same":
            lead = Lead(units.factor(most.ratio), "GPU work", judged)
    if resource:
        lines["Cause"] = "bad"
    if idle:
        lines["Idle"] = "look"
    return Lead(lead.number, lead.caption, lead.judgement, lines)
