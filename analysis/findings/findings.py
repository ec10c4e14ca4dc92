"""What a run's overview amounts to, in sentences: each rests on a number it names, and none is made without one.

Sentences come in the order a reader needs them: how busy the devices are, what they wait for, what fills them, how well
it uses them, and what the figures leave out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from ..core import units
from ..core.names.short_name import fit_name
from ..core.text import display

IDLE = 0.3
"""Devices idle for more than this share of a step are worth asking why..."""
BLAME = 0.4
"""...and what takes this share of the idle time is an answer."""
WAITING = 0.05
"""Share of a step that waiting for data, for copies or for other ranks must take to be mentioned."""
FILLED = 0.6
"""Below this share of multiprocessors with work, while kernels run, grids are too small."""
SHORT_NS = 10_000
"""Kernels with a median below this cannot hide the cost of launching them..."""
LAUNCH_COST_NS = 50_000
"""...where the host spends at most this much on each launch: more is other work, not launching."""
_NAME = 72
_KERNEL = 32
"""Cells for the name of a kernel: about what the list below gives it, so that the eye finds it there."""


class Evidence(Struct, frozen=True):
    """What is known about a run: times are means per step in ns, shares 0-1, missing values None.

    ``calls`` are the runtime calls that take most host time (``name``, ``count`` and ``total_ns`` per step);
    ``on_cpu`` and ``queued`` are shares of a step summed over threads, so they can pass 1.
    """

    steps: int
    step_ns: float
    times: dict[str, float]
    devices: list[dict[str, Any]]
    top: list[dict[str, Any]]
    bound: dict[str, float] = field(default_factory=dict)
    collective_ns: float | None = None
    median_kernel_ns: float | None = None
    launches: float | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    eligible_share: float | None = None
    on_cpu: float | None = None
    queued: float | None = None
    serialised: bool = False
    step_word: str = "step"


def findings(evidence: Evidence) -> tuple[str, ...]:
    """The sentences about a run."""
    return (*_busy(evidence), *_waits(evidence), *_work(evidence), *_quality(evidence))


def _part(ns: float, evidence: Evidence) -> str:
    """'33% of the step (59.3 of 177.6 ms)'."""
    share = 100 * ns / evidence.step_ns
    return (f"{units.percent(share, places=0 if share >= 1 else 1)} of the {evidence.step_word} "
            f"({units.duration(ns)} of {units.duration(evidence.step_ns)})")


def _busy(evidence: Evidence) -> Iterator[str]:
    for device in evidence.devices:
        used = device.get("utilisation")
        if used is not None:
            over = " of kernels, some at the same time" if used > 1 else ""
            name = device["device"] or "The device"
            yield f"{name} runs kernels {units.percent(100 * used, places=0 if used >= 0.1 else 1)} of the time{over}."


def _waits(evidence: Evidence) -> Iterator[str]:
    times = evidence.times
    if not evidence.step_ns:
        return
    host = {name: times.get(name, 0.0) for name in ("DataLoader", "Runtime", "CPU Exec", "Other")}
    idle = sum(host.values())
    if host["DataLoader"] > WAITING * evidence.step_ns:
        waited = _part(host["DataLoader"], evidence)
        idle_too = ", with devices idle" if evidence.devices else ""
        yield f"Bound by input data: the host waits for the DataLoader {waited}{idle_too}."
    if idle > IDLE * evidence.step_ns and host["Runtime"] + host["CPU Exec"] > BLAME * idle and evidence.devices:
        yield _host_bound(host, evidence)
    if idle > IDLE * evidence.step_ns and host["Other"] > BLAME * idle and evidence.devices:
        seen = any(name in times for name in ("Runtime", "CPU Exec"))
        what = "Devices wait for something no recorded operator or call shows" if seen else "Devices do nothing"
        yield f"{what}, {_part(host['Other'], evidence)}."
    if evidence.on_cpu is not None:
        queue = f" and waits for one {units.percent(100 * evidence.queued)}" if evidence.queued is not None else ""
        part = units.percent(100 * evidence.on_cpu, places=0)
        yield f"The process is on a CPU {part} of the {evidence.step_word}{queue}, all threads together."
    if times.get("Memcpy", 0.0) > WAITING * evidence.step_ns:
        yield f"Copies that no kernel hides take {_part(times['Memcpy'], evidence)}."
    yield from _communication(evidence)


def _host_bound(host: dict[str, float], evidence: Evidence) -> str:
    """Devices wait for the host: in one long call, in launching many short kernels, or in other work."""
    driving = host["Runtime"] + host["CPU Exec"]
    part, call = _part(driving, evidence), evidence.calls[0] if evidence.calls else None
    if call and host["Runtime"] > 2 * host["CPU Exec"] and call["total_ns"] > driving / 2:
        count = units.counted(call["count"], "call", "calls")
        most = f"{display(call['name'], _NAME)} ({count}, {units.duration(call['total_ns'])})"
        return f"Devices are idle while the host is in runtime calls, {part}, most of it in {most}."
    median, launches = evidence.median_kernel_ns, (evidence.launches or 0) / max(evidence.steps, 1)
    if median is not None and median < SHORT_NS and launches and driving / launches < LAUNCH_COST_NS:
        cost = units.duration(driving / launches)
        cost = f"half of the kernels take at most {units.duration(median)}, the host {cost}"
        what = "devices wait while operators and runtime calls run on the host"
        return f"Bound by launches: {what}, {part}; {cost} for each."
    return f"Bound by the host: devices wait while operators and runtime calls run there, {part}."


def _communication(evidence: Evidence) -> Iterator[str]:
    exposed = evidence.times.get("Communication", 0.0)
    if exposed <= WAITING * evidence.step_ns:
        return
    hidden = ""
    if evidence.collective_ns and evidence.collective_ns > exposed:
        hidden = f"; another {units.duration(evidence.collective_ns - exposed)} is hidden behind kernels"
    if not evidence.devices:
        yield f"Calls to communicate take {_part(exposed, evidence)} on the host."
        return
    yield f"Communication that nothing hides takes {_part(exposed, evidence)}{hidden}."


def _work(evidence: Evidence) -> Iterator[str]:
    for kernel in [kernel for kernel in evidence.top[:1] if kernel["share"]]:
        count = f" in {units.counted(kernel['count'], 'launch', 'launches')}" if kernel["count"] else ""
        yield (f"Costliest on the device: {fit_name(kernel['name'], _KERNEL)}, "
               f"{units.percent(100 * kernel['share'])} of its time ({units.duration(kernel['total_ns'])}{count}).")
    if evidence.bound:
        parts = [
            f"{units.percent(100 * share, places=0)} {name}" for name, share in evidence.bound.items() if share >= 0.005
        ]
        yield f"By what holds kernels back, of their time: {', '.join(parts)}."
    if evidence.serialised:
        yield "Launches were replayed one by one: these are sums of kernel time, not wall time."


def _quality(evidence: Evidence) -> Iterator[str]:
    for device in evidence.devices:
        used, filled = device.get("utilisation"), device.get("sm_efficiency")
        if used and filled is not None and filled / used < FILLED:
            part = units.percent(100 * filled / used, places=0)
            yield f"While kernels run on {device['device']} they fill {part} of its multiprocessors: grids are small."
        share = device.get("tensor_share")
        if share:
            part = units.percent(100 * share, places=0 if share > 0.01 else 1)
            yield f"{part} of the kernel time on {device['device']} is in kernels named after tensor cores."
    if evidence.eligible_share:
        part = units.percent(100 * evidence.eligible_share, places=0)
        yield f"No kernel is named after tensor cores, though {part} of the device time is in operators that could be."
