"""Devices wait for the host: in one long call, in launching many short kernels, or in other work."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ..core import units
from ..core.text import display
from .rule import BLAME, IDLE, Evidence, PartOfStep, Rule

SHORT_NS = 10_000
"""Kernels with a median below this cannot hide the cost of launching them..."""
LAUNCH_COST_NS = 50_000
"""...where the host spends at most this much on each launch: more is other work, not launching."""
_NAME = 72


class HostDriven(Struct, frozen=True):
    """Time of a step in which the host was in operators and runtime calls while devices did nothing, ns.

    ``call`` is the runtime call most of it was in; ``median_kernel_ns`` and ``per_launch_ns`` are given where launching
    short kernels explains it.
    """

    driving_ns: float
    part: PartOfStep
    call: dict[str, Any] | None = None
    median_kernel_ns: float | None = None
    per_launch_ns: float | None = None


def _find(evidence: Evidence) -> HostDriven | None:
    runtime, operators = (evidence.times.get(name, 0.0) for name in ("Runtime", "CPU Exec"))
    driving, idle = runtime + operators, evidence.idle_ns
    if not evidence.devices or idle <= IDLE * evidence.step_ns or driving <= BLAME * idle:
        return None
    found = HostDriven(driving, evidence.part)
    call = max(evidence.calls, key=lambda one: one["idle_ns"], default=None)
    if call is not None and runtime > 2 * operators and call["idle_ns"] > driving / 2:
        return HostDriven(driving, evidence.part, call)
    median, launches = evidence.median_kernel_ns, (evidence.launches or 0) / max(evidence.steps, 1)
    if median is not None and median < SHORT_NS and launches and driving / launches < LAUNCH_COST_NS:
        return HostDriven(driving, evidence.part, None, median, driving / launches)
    return found


def _sentence(found: HostDriven) -> str:
    part = found.part.of(found.driving_ns)
    if found.call is not None:
        count = units.counted(found.call["count"], "call", "calls")
        most = f"{units.duration(found.call['idle_ns'])} of it in {display(found.call['name'], _NAME)} ({count})"
        return f"Devices are idle while the host is in runtime calls, {part}, {most}."
    if found.median_kernel_ns is not None and found.per_launch_ns is not None:
        cost = f"half of the kernels take at most {units.duration(found.median_kernel_ns)}"
        what = "devices wait while operators and runtime calls run on the host"
        return f"Bound by launches: {what}, {part}; {cost}, the host {units.duration(found.per_launch_ns)} for each."
    return f"Bound by the host: devices wait while operators and runtime calls run there, {part}."


RULE = Rule(
    "host", "problem", _find, _sentence, rows=lambda found: (found.call,) if found.call is not None else (),
    time_to_win_ns=lambda found: found.driving_ns, view="ops",
)
