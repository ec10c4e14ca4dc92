"""What the changed resource explains: the slower cycle, only the device line, or nothing.

A changed resource is no cause of a slow cycle it does not explain. It explains a slower cycle only where the part of
the machine it belongs to got slower with it and somebody waited for that part; where the cycle kept its length it can
explain the device line at most.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.metrics import change
from .comparability import Comparability
from .cycle_time import CycleTime
from .device_work import CHANGED, DeviceWork
from .resources import ChangedResource, foremost_cause


def foremost(
    resources: Sequence[ChangedResource], cycles: CycleTime | None, work: Sequence[DeviceWork]
) -> tuple[ChangedResource | None, str]:
    """The changed capacity that is told, None where none changed, and what it explains, as the end of a sentence."""
    if (grown := _grown(resources, cycles, work)) is not None:
        faster = cycles is not None and cycles.verdict == "faster"
        if grown.device == "Host":
            return grown, "may explain the faster cycle"
        kept = "the recording does not show whether the cycle waited for it" if faster else _length_kept(cycles)
        return grown, f"explains the GPU line; {kept}"
    top = foremost_cause(resources)
    return top, explains(top, cycles, work)


def _grown(
    resources: Sequence[ChangedResource], cycles: CycleTime | None, work: Sequence[DeviceWork]
) -> ChangedResource | None:
    """The capacity there is more of where a device, or the cycle, got faster and nothing slower.

    What shrank elsewhere meanwhile cost nothing.
    """
    verdict = cycles.verdict if cycles is not None else ""
    if verdict == "slower" or any(row.slower for row in work):
        return None
    faster = {row.device for row in work if row.faster} | ({"Host"} if verdict == "faster" else set())
    more = [row for row in resources if row.role == "capacity" and row.loss < 0 and row.device in faster]
    return min(more, key=lambda row: (round(row.loss, 3), -len(row.metric), row.device), default=None)


def explains(top: ChangedResource | None, cycles: CycleTime | None, work: Sequence[DeviceWork]) -> str:
    """What the foremost changed capacity explains, as the end of a sentence."""
    if top is None:
        return _without_a_cause(cycles, work)
    slower = cycles is not None and cycles.verdict == "slower"
    odd = cycles is not None and bool(cycles.slow_in_b) and not slower
    on_host = top.device == "Host"
    device_slower = any(row.slower and (on_host or row.device == top.device) for row in work)
    if on_host:
        if slower:
            if top.functions:
                return "explains the slower cycle" + ("" if device_slower else "; GPU work per launch is unchanged")
            return "nothing on the host got slower under it, so the slower cycle is not explained"
        if odd and top.functions:
            return "may explain the slow cycles"
        return f"{_length_kept(cycles)}, so it explains no slower cycle"
    if not device_slower and not top.functions:
        return "no function got slower under it, so it explains nothing"
    paths = {row.path for row in work if row.device == top.device}
    if slower and "exposed" in paths:
        return "explains the slower cycle"
    if slower and paths == {"hidden"}:
        return "explains the GPU line, which is hidden behind the host, not the slower cycle"
    if slower:
        return "explains the GPU line; the recording does not show whether the cycle waited for it"
    return "explains the GPU line, not " + ("the slow cycles" if odd else f"any slower cycle: {_length_kept(cycles)}")


def _length_kept(cycles: CycleTime | None) -> str:
    """What the cycle did that did not get slower."""
    verdict = cycles.verdict if cycles is not None else "cannot tell"
    return {"unchanged": "the cycle kept its length", "faster": "the cycle got no slower"}.get(
        verdict, "it is unclear whether the cycle changed"
    )


def _without_a_cause(cycles: CycleTime | None, work: Sequence[DeviceWork]) -> str:
    """Where no capacity changed: at least which part of the machine the time was lost on."""
    if cycles is None or cycles.verdict != "slower":
        unchanged = cycles is not None and cycles.verdict == "unchanged"
        return "nothing needs one to explain it" if unchanged else "no cause can be named"
    if any(row.path == "exposed" for row in work):
        return "the cycle waits for more GPU work"
    idle = [(row.idle_a, row.idle_b) for row in work if row.idle_a is not None and row.idle_b is not None]
    same = all(row.ratio is not None and abs(row.ratio - 1) <= CHANGED for row in work)
    if work and same and idle and all(b > a + 0.01 for a, b in idle):
        return "GPU work is unchanged and the GPU waits longer: the time is lost on the host"
    return "no cause can be named"


def explanation(
    resources: Sequence[ChangedResource], cycles: CycleTime | None, work: Sequence[DeviceWork], regressions: int,
    comparability: Comparability,
) -> str:
    """The whole in one sentence, for those who read only one."""
    if not comparability.comparable:
        return f"These runs cannot be compared as one thing changed: {'; '.join(comparability.reasons)}."
    cycle = {
        "slower": "The cycle got slower", "faster": "The cycle got faster", "unchanged": "The cycle kept its length",
    }.get(cycles.verdict if cycles is not None else "", "It is unclear whether the cycle changed")
    count = "no function significantly slower" if not regressions else (
        f"{regressions} function{'' if regressions == 1 else 's'} significantly slower"
    )
    top, why = foremost(resources, cycles, work)
    if top is None:
        return f"{cycle}, {count}; no capacity that was read changed, {why}."
    went = f"{top.metric} on {top.device} went {change(top.mu_a, top.mu_b, top.unit)}"
    return f"{cycle}, {count}; {went}, which {_which(why)}."


def _which(text: str) -> str:
    return text if text.startswith(("explains", "may explain")) else f"changed, but {text}"
