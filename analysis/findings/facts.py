"""Context for the other findings: what ran, how busy it was, what the profiler said, its own errors included."""

from __future__ import annotations

from typing import Any

from ..core import units
from ..core.names.short_name import fit_name
from ..core.text import display
from ..measured.rules import verdict_sentence
from .rule import Evidence, Said, rule
from .spread import share_text, spread

TELLING = 0.05  # If the busy share of the whole recording differs by at least this, it is given as well.
LEAST, KNOWN, UNKNOWN = 0.005, 0.5, 0.1
"""Shares of bottlenecks below the first are not listed; known for less than the second, there is no finding; the share
with unknown bottlenecks is mentioned from the third on."""
_NAME = 40  # Width of a kernel name: about that of the list below, so that the eye finds it there.
_PARTS = (("Computing", "computing"), ("Communication(Not Overlapped)", "communication not overlapped"),
          ("Overlapped", "overlapped"), ("Free", "free"), ("Preparing", "preparing"))


@rule("recorded verdict", "fact", "sections", "what=rule")
def recorded_verdict(evidence: Evidence) -> Said | None:
    """The profiler's own bottleneck verdict; if there is one, ours is not shown."""
    verdicts = evidence.measured.recorded.verdicts if evidence.measured.recorded else None
    return Said(verdict_sentence(verdicts), tuple(
        {"verdict": name, "share": share} for name, share in verdicts.items())) if verdicts else None


@rule("busy", "fact", "idle")
def busy(evidence: Evidence) -> Said | None:
    """The busy share of devices in the steps: 1 − idle / (last − first activity)."""
    devices, in_all = spread(evidence.busy, "busy"), spread(evidence.in_all, "busy")
    if devices is None:
        return None
    alone = len(devices.shares) == 1
    of_ns = evidence.busy[0]["of_ns"] if alone else None
    of = f"the {units.duration(of_ns)} from its first to its last activity" if of_ns is not None else (
        units.each(evidence.step_word) if evidence.in_steps else "the time")
    more = ""
    if in_all is not None and abs(in_all.highest[1] - devices.highest[1]) >= TELLING:
        more = f"; {in_all.text} of the {units.duration(evidence.in_all[0]['of_ns'])} recorded"
    (least, low), (most, high) = devices.lowest, devices.highest
    said = f"{devices.who} {'is' if alone else 'are'} busy {share_text(high)} of {of}"
    if share_text(low) != share_text(high):
        others = ", the others between" if devices.shares[2:] else ""
        said = f"{most} is busy {share_text(high)} of {of}, {least} {share_text(low)}{others}"
    return Said(f"{said}{more}.", tuple({"device": name, "busy": share} for name, share in devices.shares), short=said)


@rule("utilisation", "fact", "roofline")
def utilisation(evidence: Evidence) -> Said | None:
    """Model FLOPs utilisation (MFU): FLOPs of a cycle as a share of what the device could do in that time."""
    work = evidence.measured.utilisation
    if work is None or not work.flops:
        return None
    name = "HFU (recomputation counted)" if work.recomputes else "MFU"
    said = f"{name} {units.percent(100 * work.mfu)} of peak FLOP/s: {units.work(work.flops)}"
    return Said(f"{said} {units.each(evidence.step_word)} of {units.duration(evidence.part.step_ns)}, known for "
                f"{units.percent(100 * work.covered, places=0)} of the kernel time outside collectives.",
                ({"mfu": work.mfu, "flops_per_cycle": work.flops, "covered": work.covered},), short=said)


@rule("processor", "fact", "cycles")
def processor(evidence: Evidence) -> Said | None:
    """The share of time the process is on a CPU, and waits for one."""
    if evidence.on_cpu is None or not evidence.step_ns:
        return None
    queue = "" if evidence.queued is None else f" and waits for one {units.percent(100 * evidence.queued)}"
    return Said(f"The process is on a CPU {share_text(evidence.on_cpu)} of the {evidence.step_word}{queue}, all "
                "threads together.")


@rule("costliest", "fact", "kernels")
def costliest(evidence: Evidence) -> Said | None:
    """The kernel that takes most device time."""
    kernel = evidence.costliest or (evidence.top[0] if evidence.top else None)
    if kernel is None or not kernel["share"]:
        return None
    what = kernel.get("kind") if kernel.get("kind") in ("kernel", "collective") else "activity"
    devices, name = kernel.get("devices") or 1, fit_name(kernel["name"], _NAME)
    rows = ({key: kernel[key] for key in ("name", "share", "total_ns")},)
    whose = "device time" if devices == 1 else f"the time of {units.count(devices)} devices"
    share, time = units.percent(100 * kernel["share"]), kernel["total_ns"]
    if kernel is not evidence.costliest or not evidence.in_steps or not evidence.steps:
        count = f" in {units.counted(kernel['count'], 'launch', 'launches')}" if kernel["count"] else ""
        return Said(f"Top {what}: {name}, {share} of {whose} ({units.duration(time)}{count}).", rows,
                    short=f"Top {what}: {fit_name(kernel['name'], 24)}, {units.duration(time)}")
    each = evidence.steps_each * devices
    part, on = evidence.part.of(time / each), f" on each of {units.count(devices)} devices" if devices > 1 else ""
    return Said(f"Top {what}: {name}, {part}{on} ({share} of {whose}).", ({**rows[0], "each_ns": time / each},),
                short=f"Top {what}: {fit_name(kernel['name'], 20)}, {units.duration(time / each)} "
                      f"{units.each(evidence.step_word)}")


@rule("top operator", "fact", "ops")
def top_operator(evidence: Evidence) -> Said | None:
    """The operator with the most self time, for runs without device records."""
    operator = evidence.measured.operator
    if not operator:
        return None
    return Said(f"Top operator: {fit_name(operator['name'], _NAME)}, {units.percent(100 * operator['share'])} of the "
                f"operators' host time{evidence.where} ({units.duration(operator['host_self_ns'])} in "
                f"{units.counted(operator['calls'], 'call', 'calls')}).",
                ({name: operator[name] for name in ("name", "share", "host_self_ns", "calls")},))


@rule("bound", "fact", "kernels")
def bound(evidence: Evidence) -> Said | None:
    """The bottlenecks of kernels (compute, memory, launch or low utilisation), weighted by kernel time, where known."""
    recorded = evidence.measured.recorded
    if evidence.measured.waits is not None and evidence.measured.waits.capture:
        return None  # of what little ran beside the capture
    shares = [(name, share) for name, share in evidence.bound.items() if share >= LEAST]
    if sum(evidence.bound.values()) < KNOWN or (recorded is not None and recorded.verdicts) or not shares:
        return None
    parts = [
        f"{units.percent(100 * share, places=0)} {'low utilisation' if name.endswith('low') else name.lstrip('~')}"
        for name, share in shares
    ]
    unknown = 1 - sum(share for _, share in shares)
    rest = f", unknown for {units.percent(100 * unknown, places=0)}" if unknown >= UNKNOWN else ""
    worked_out = all(name.startswith("~") for name, _ in shares)
    how = ", estimated from shapes" if worked_out else ""
    return Said(f"Bottlenecks by kernel time{how}: {', '.join(parts)}{rest}.",
                tuple({"bound": name, "share": share} for name, share in shares),
                short=f"By kernel time: {', '.join(parts[:2])}")


@rule("serialised", "fact", "launches")
def serialised(evidence: Evidence) -> Said | None:
    """Launches were replayed one by one, so totals are not wall time."""
    return Said("Launches were replayed one by one: these are sums of kernel time, not wall time."
                ) if evidence.serialised else None


@rule("tensor cores", "fact", "kernels")
def tensor_cores(evidence: Evidence) -> Said | None:
    """The share of kernel time on tensor cores, as far as kernel names tell."""
    shares = spread(evidence.devices, "tensor_share")
    # a lower bound where the names of other kernels leave it open
    least = shares is None or len(shares.shares) < len(evidence.devices)
    shares = spread(evidence.devices, "tensor_least") if least else shares
    if shares is None or not shares.highest[1]:
        return None
    others = "; others may use them, too" if least else ""
    return Said(f"Kernels whose names say tensor core take {shares.text} of the kernel time{others}.",
                tuple({"device": name, "tensor_share": each} for name, each in shares.shares),
                short=f"Tensor cores, by name: {shares.range} of kernel time")


@rule("step trace", "fact", "cycles")
def step_trace(evidence: Evidence) -> Said | None:
    """The Ascend profiler's own breakdown of a step: computing, communication not overlapped, free time."""
    recorded = evidence.measured.step_trace
    parts = {word: ns for column, word in _PARTS if (ns := _nanoseconds((recorded or {}).get(column))) is not None}
    if recorded is None or not parts:
        return None
    times = ", ".join(f"{word} {units.duration(ns)}" for word, ns in parts.items())
    step = f"step {display(str(recorded['Step']), 12)}" if recorded.get("Step") else "the step"
    more = f", the first of {units.count(recorded['steps'])}" if recorded["steps"] > 1 else ""
    return Said(f"The profiler's own times of {step}{more}: {times}.",
                ({"step": recorded.get("Step"), "steps": recorded["steps"], **parts},))


def _nanoseconds(us: Any) -> int | None:
    try:
        value = float(us) * 1000
    except (TypeError, ValueError):
        return None
    return round(value) if 0 <= value < 1e18 else None


def _stated(evidence: Evidence, name: str) -> Said | None:
    notices: list[dict[str, Any]] = [one for one in evidence.measured.notices if one["rule"] == name]
    return Said(" ".join(one["sentence"] for one in notices), tuple(notices)) if notices else None


@rule("recorder's message", "problem", "overview")
def message(evidence: Evidence) -> Said | None:
    """The profiler says that its own recording is incomplete."""
    return _stated(evidence, "recorder's message")


@rule("page faults", "problem", "copies")
def page_faults(evidence: Evidence) -> Said | None:
    """Pages of unified memory migrate on demand while kernels wait."""
    return _stated(evidence, "page faults")


@rule("device error", "problem", "metrics")
def device_error(evidence: Evidence) -> Said | None:
    """A device reported an error: an XID, an ECC error, a retired page."""
    return _stated(evidence, "device error")
