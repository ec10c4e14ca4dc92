"""The overview of one run from whichever of its tables can tell: timed events, recorded sums, a profile, launches.

Every source gives the same: times per category (means per cycle, ns), gauges per device, evidence for the findings, and
notes on what it cannot know.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import polars as pl
from msgspec import Struct, field
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..core import units
from ..core.intervals import Intervals
from ..core.launch_calls import CALLS, calls_of
from ..core.options import Options
from ..cycles.account import find_cycles
from ..cycles.scope import scoped
from ..cycles.steps import Steps, steps_of
from ..findings.findings import Evidence, findings
from ..kernels.by_name import table as kernel_table
from ..kernels.tensor_cores import OPERATORS
from ..operators.tree import operators_of
from ..table.view import CannotAnswer
from .activities import activities_of
from .breakdown import CATEGORIES, breakdown
from .devices import GAUGES, gauges

TOP = 10
SHOWN = 8
"""Devices named in the headline."""
BY_KIND = {"kernel": "Kernel", "collective": "Communication", "memcpy": "Memcpy", "memset": "Memset"}
TENSOR_CORES_SINCE = 7
"""First major compute capability with tensor cores."""


class Overview(Struct, frozen=True):
    """One run: ``times`` per category (mean per cycle, ns), what a cycle is called here, and all that is said.

    ``host`` has ``on_cpu`` and ``queued`` where recorded: shares of a cycle, summed over threads.
    """

    times: dict[str, float]
    step_ns: float | None
    word: str
    headline: str
    facts: dict[str, Any]
    findings: tuple[str, ...]
    notes: tuple[str, ...] = ()
    host: dict[str, float] = field(default_factory=dict)


class Part(Struct, frozen=True):
    """Figures of one rank: times summed over its steps, its gauges, and how its steps were found.

    ``calls`` are the longest runtime calls: name, count and ns summed over the steps.
    """

    steps: int
    step_ns: int
    times: dict[str, int]
    devices: list[dict[str, Any]]
    collective_ns: int | None = None
    calls: tuple[tuple[str, int, int], ...] = ()
    left_out: int = 0
    inside_ns: int = 0
    activity_ns: int = 0
    source: str = ""
    notes: tuple[str, ...] = field(default=())


def overview_of(run: Trace, options: Options, side: Literal["a", "b"]) -> Overview:
    """The overview of the run, or of the one cycle the options name for this side. Raises CannotAnswer."""
    limited = scoped(run, options, side)
    cycle = options.cycle if side == "a" else options.cycle_b
    parts = [part for rank in _by_rank(run) if (part := _timed(rank, options, cycle)) is not None]
    if parts:
        return _told(limited, options, _joined(parts), parts)
    if run.has("breakdown"):
        return _recorded(run, options)
    if run.has("profile"):
        return _profiled(limited, options)
    if run.has("kernels") or run.has("kernel_stats"):
        return _untimed(limited, options)
    only = "only times of its cycles (see the cycles view)" if run.has("cycles") else "nothing that takes time"
    raise CannotAnswer(f"{run.info.label} holds {only}: no overview.")


def _by_rank(run: Trace) -> Iterator[Trace]:
    """The run itself, or each rank of a recording that holds several."""
    if len(run.info.ranks) < 2:
        yield run
        return
    for rank in run.info.ranks:
        mine = pl.col("rank") == rank
        yield replace(
            run, kernels=run.kernels.filter(mine), host=run.host.filter(mine), cycles=run.cycles.filter(mine)
        )


def _timed(run: Trace, options: Options, cycle: int | None) -> Part | None:
    activities, calls = activities_of(run), calls_of(run)
    steps = steps_of(run, activities, calls, options)
    if steps is not None and cycle is not None:
        steps = steps.only(cycle)
    if steps is None or not len(steps) or (activities is None and not run.has("host")):
        return None
    times = {name: int(each.sum()) for name, each in breakdown(run, steps, activities, calls).items()}
    window = steps.window
    part = Part(
        len(steps), int((steps.ends - steps.starts).sum()), times, [], calls=_longest_calls(run, window),
        left_out=steps.left_out, source=steps.source, notes=_about(steps),
    )
    if activities is None:
        nothing = "No device activity was recorded: what devices did is not known."
        return replace(part, notes=(*part.notes, nothing))
    collective = activities.union(activities.kernels & activities.communicates)
    inside = window.within(activities.starts, activities.ends)
    return replace(
        part, devices=gauges(activities, window, run.info.devices),
        collective_ns=int(collective.within(steps.starts, steps.ends).sum()),
        inside_ns=int(inside.sum()), activity_ns=int((activities.ends - activities.starts).sum()),
    )


def _about(steps: Steps) -> tuple[str, ...]:
    notes = []
    if steps.left_out:
        notes.append(
            f"{steps.left_out} of {steps.left_out + len(steps)} steps are left out: the recorder saw none or too few of"
            " their device activities."
        )
    if steps.source == "whole":
        notes.append("No steps are marked or found: the whole recording counts as one.")
    return tuple(notes)


def _longest_calls(run: Trace, window: Intervals) -> tuple[tuple[str, int, int], ...]:
    """The runtime calls that take most time of the host, by name."""
    if not window.length:
        return ()
    first, last = int(window.starts[0]), int(window.ends[-1])
    inside = pl.col("start_ns").is_between(first, last) & pl.col("kind").is_in(CALLS)
    sums = run.host.filter(inside).group_by("name").agg(pl.len().alias("count"), pl.col("dur_ns").sum())
    rows = sums.sort("dur_ns", descending=True).head(3).with_columns(pl.col("name").cast(pl.String))
    return tuple(rows.collect(engine="streaming").drop_nulls().rows())


def _joined(parts: list[Part]) -> Part:
    """All ranks together: sums over the steps of all, gauges one after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    names = [name for name in CATEGORIES if any(name in part.times for part in parts)]
    return Part(
        sum(part.steps for part in parts), sum(part.step_ns for part in parts),
        {name: sum(part.times.get(name, 0) for part in parts) for name in names},
        [device for part in parts for device in part.devices],
        sum(part.collective_ns or 0 for part in parts), first.calls, sum(part.left_out for part in parts),
        sum(part.inside_ns for part in parts), sum(part.activity_ns for part in parts), first.source,
        tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def _told(run: Trace, options: Options, part: Part, parts: list[Part]) -> Overview:
    times = {name: time / part.steps for name, time in part.times.items()}
    step_ns = part.step_ns / part.steps
    word = "recording" if part.source == "whole" else "step"
    top, evidence = _kernels(run, options)
    evidence = replace(
        evidence, steps=part.steps, step_ns=step_ns, times=times, devices=part.devices, step_word=word,
        collective_ns=None if part.collective_ns is None else part.collective_ns / part.steps,
        eligible_share=_eligible(run, part),
        calls=[
            {"name": name, "count": count / parts[0].steps, "total_ns": ns / parts[0].steps}
            for name, count, ns in part.calls
        ],
    )
    said = findings(evidence)
    covered = part.inside_ns / part.activity_ns if part.activity_ns else None
    notes = part.notes
    if covered is not None and covered < 0.995:
        notes = (*notes, f"{units.percent(100 * covered)} of the device activity time is inside these steps.")
    if len(parts) > 1:
        notes = (*notes, f"Means over the steps of all {len(parts)} ranks.")
    facts = _facts(run, part.devices, said, top, part.steps, step_ns, part.source, part.left_out, covered)
    span = f"one {word} of" if part.steps == 1 else f"{units.count(part.steps)} {word}s, mean"
    headline = " · ".join((f"{span} {units.duration(step_ns)}", *_busy(part.devices)))
    return Overview(times, step_ns, word, headline, facts, said, notes)


def _facts(
    run: Trace, devices: list[dict[str, Any]], said: tuple[str, ...], top: list[dict[str, Any]], steps: int | None,
    step_ns: float | None, source: str | None, left_out: int | None = None, covered: float | None = None,
) -> dict[str, Any]:
    """The values beside the rows; ``coverage`` says what share of steps, device time and source the figures rest on."""
    return {
        "devices": devices, "findings": list(said), "top_kernels": top, "steps": steps, "step_ns": step_ns,
        "coverage": {"steps_left_out": left_out, "activity_in_steps": covered, "source": run.info.coverage},
        "cycle_source": source,
    }


def _busy(devices: list[dict[str, Any]]) -> list[str]:
    """'GPU 0 in kernels 56%' for each device of which that is known: copies, which cycles count as busy, are not."""
    told = [device for device in devices if device["utilisation"] is not None]
    shown = [
        f"{device['device'] or 'device'} in kernels {units.percent(100 * device['utilisation'], places=0)}"
        for device in told[:SHOWN]
    ]
    return [*shown, f"{len(told) - SHOWN} more devices"] if len(told) > SHOWN else shown


def _kernels(run: Trace, options: Options) -> tuple[list[dict[str, Any]], Evidence]:
    """The kernels that take most time, and what the kernel table lets one say."""
    evidence = Evidence(0, 0.0, {}, [], [], serialised=run.info.serialised)
    try:
        frame, _ = kernel_table(run, replace(options, cycle=None, cycle_b=None))
    except CannotAnswer:
        return [], evidence
    names = ["name", "kind", "device", "count", "total_ns", "share", "bound"]
    top = frame.head(TOP).select(pl.col("name", "kind", "device").cast(pl.String), *names[3:]).to_dicts()
    work = frame.filter(pl.col("kind").is_in(["kernel", "collective"]))
    total = int(frame["total_ns"].sum())
    bound = work.drop_nulls("bound").group_by("bound").agg(pl.col("total_ns").sum()).sort(
        "total_ns", descending=True).rows()
    return top, replace(
        evidence, top=top, bound={name: ns / total for name, ns in bound} if total else {},
        median_kernel_ns=_median(work), launches=float(work["count"].sum()),
    )


def _median(work: pl.DataFrame) -> float | None:
    """About the median duration of all launches: the median of each kernel, weighted by its launches."""
    known = work.drop_nulls(["p50_ns", "count"]).sort("p50_ns")
    if known.is_empty():
        return None
    passed = known["count"].cum_sum().to_numpy()
    return float(known["p50_ns"][int(np.searchsorted(passed, passed[-1] / 2))])


def _eligible(run: Trace, part: Part) -> float | None:
    """Share of device time in operators that can use tensor cores, where devices have them and none was used."""
    majors = [
        device.properties.get("computeMajor") or device.properties.get("major")
        for device in run.info.devices if not (device.name or "").startswith("AMD")
    ]
    able = any(isinstance(major, int) and major >= TENSOR_CORES_SINCE for major in majors)
    if not able or not part.devices or any(device["tensor_share"] for device in part.devices):
        return None
    found = operators_of(run)
    if found is None or not found.frame["device_self_ns"].sum():
        return None
    may = found.frame.filter(pl.col("name").cast(pl.String).is_in(list(OPERATORS)))
    return int(may["device_self_ns"].sum()) / int(found.frame["device_self_ns"].sum())


def _recorded(run: Trace, options: Options) -> Overview:
    """A breakdown that another tool made."""
    rows = run.breakdown.collect()
    means = rows.filter(pl.col("step").is_null())
    steps = rows["step"].drop_nulls().n_unique()
    if means.is_empty():
        means = rows.group_by("category", maintain_order=True).agg(pl.col("time_ns").sum() / max(steps, 1))
    times = {str(name): float(ns) for name, ns in means.select("category", "time_ns").rows() if ns is not None}
    devices = [
        {"device": device.id, "name": device.name, **{gauge: device.properties.get(gauge) for gauge in GAUGES}}
        for device in run.info.devices
    ]
    top, evidence = _kernels(run, options)
    step_ns = sum(times.values())
    said = findings(replace(evidence, steps=steps, step_ns=step_ns, times=times, devices=devices))
    facts = _facts(run, devices, said, top, steps or None, step_ns, "recorded")
    word = f"{units.count(steps)} steps, mean" if steps > 1 else "mean step"
    headline = " · ".join((f"{word} {units.duration(step_ns)}", *_busy(devices)))
    return Overview(times, step_ns, "step", headline, facts, said,
                    ("The breakdown is the one another tool recorded, rounded to µs.",))


def _profiled(run: Trace, options: Options) -> Overview:
    """Busy time per kind and cycle from a profile: means over the cycles whose device records are whole."""
    cycles = find_cycles(run, options).frame.filter("complete")
    whole = cycles["cycle"].unique().to_list()
    once = run.profile.filter(pl.col("cycle").is_in(whole)).unique(
        ["cycle", "pid", "function", "kind", "device"]).select("cycle", "cycle_ns", "pid", "kind", "device", "dur_ns")
    rows = once.collect(engine="streaming")
    if rows.is_empty():
        raise CannotAnswer(f"{run.info.label} has no cycle whose device records are whole.")
    spans = rows.unique(["cycle", "pid"])
    count = spans.height
    length = int(spans["cycle_ns"].sum()) / count
    per_kind = rows.group_by(pl.col("kind").cast(pl.String)).agg(pl.col("dur_ns").sum() / count).rows()
    kinds: dict[str, float] = dict(per_kind)
    sums = {BY_KIND[kind]: ns for kind, ns in kinds.items() if kind in BY_KIND}
    times = {name: sums[name] for name in CATEGORIES if name in sums}
    times["Other"] = max(length - sum(times.values()), 0.0)
    devices = _profiled_devices(rows.filter(pl.col("kind").is_in(["kernel", "collective"])), spans)
    top, evidence = _kernels(run, options)
    host = {name: kinds[kind] / length for kind, name in (("oncpu", "on_cpu"), ("runq", "queued")) if kind in kinds}
    said = findings(replace(
        evidence, steps=count, step_ns=length, times=times, devices=devices, step_word="cycle",
        on_cpu=host.get("on_cpu"), queued=host.get("queued"),
    ))
    left_out = find_cycles(run, options).frame.height - cycles.height
    notes: tuple[str, ...] = ("Sums per function and cycle: overlap is not removed; Other is the rest of it.",)
    if left_out:
        notes = (f"{left_out} of {left_out + cycles.height} cycles lack device records and are left out.", *notes)
    facts = _facts(run, devices, said, top, count, length, "recorded", left_out)
    headline = " · ".join((f"{units.count(count)} cycles, mean {units.duration(length)}", *_busy(devices)))
    return Overview(times, length, "cycle", headline, facts | {"host": host}, said, notes, host)


def _profiled_devices(work: pl.DataFrame, spans: pl.DataFrame) -> list[dict[str, Any]]:
    """Busy time per device over the cycles of the processes that use it."""
    users = work.select("device", "pid").unique()
    windows = users.join(spans.select("pid", "cycle_ns"), on="pid", nulls_equal=True).group_by("device").agg(
        pl.col("cycle_ns").sum())
    busy = work.group_by("device").agg(pl.col("dur_ns").sum()).join(windows, on="device", nulls_equal=True)
    return [
        {"device": device, "name": None, "utilisation": ns / window, "sm_efficiency": None, "occupancy": None,
         "tensor_share": None, "busy_ns": ns, "kernel_ns": ns, "window_ns": window}
        for device, ns, window in busy.with_columns(pl.col("device").cast(pl.String)).sort("device").rows()
    ]


def _untimed(run: Trace, options: Options) -> Overview:
    """Launches or sums without timestamps: no wall time, only how device time divides."""
    top, evidence = _kernels(run, options)
    frame, _ = kernel_table(run, replace(options, cycle=None, cycle_b=None))
    kinds = dict(frame.group_by(pl.col("kind").cast(pl.String)).agg(pl.col("total_ns").sum()).rows())
    times = {BY_KIND[kind]: float(kinds[kind]) for kind in BY_KIND if kinds.get(kind)}
    said = findings(replace(evidence, devices=[]))
    total = sum(times.values())
    facts = _facts(run, [], said, top, None, None, None)
    notes = ("The input has no timestamps: no breakdown of the wall time, no utilisation; device time by kind.",)
    replay = ", serialised replay" if run.info.serialised else ""
    launched = units.counted(evidence.launches or 0, "launch", "launches")
    headline = f"{launched} · {units.duration(total)} of device time{replay}"
    return Overview(times, None, "run", headline, facts, said, notes)
