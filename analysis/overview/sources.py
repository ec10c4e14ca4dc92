"""The overview of one run from the best available table: timed events, recorded breakdown, profile, launches.

Every source gives the same data: times per category (means per cycle, ns), gauges per device, evidence for the
findings, and notes on what the source lacks.
"""

from __future__ import annotations

from typing import Any, Literal

import polars as pl
from msgspec.structs import replace

from ...loaders.trace import REDUCED, Trace
from ..contract.options import Options
from ..contract.view import CannotAnswer
from ..core import units
from ..cycles.detection import view_cycles
from ..cycles.scope import scoped
from ..cycles.statement import left_out
from ..findings.evidence.measured import measured
from ..kernels.by_name import table as kernel_table
from .activities import GAUGES
from .overview import CATEGORIES, Basis, Overview, kernels, median_length, overview, span
from .timed import timed

BY_KIND = {"kernel": "Kernel", "collective": "Communication", "memcpy": "Memcpy", "memset": "Memset"}


def overview_of(run: Trace, options: Options, side: Literal["a", "b"], whole: bool = False) -> Overview:
    """The overview of the run, or of the one cycle the options select for this side. Raises CannotAnswer. ``whole``:
    the breakdown covers the whole recording instead of its cycles (only for recordings with timestamps)."""
    limited = scoped(run, options, side)
    cycle = options.cycle if side == "a" else options.cycle_b
    if REDUCED in run.info.facts:
        from .reduced import reduced_overview

        return reduced_overview(limited, options, cycle)
    if run.has("kernels") or run.has("host"):
        timed_overview = timed(run, limited, options, cycle, whole)
        if timed_overview is not None:
            return timed_overview
    if run.has("breakdown"):
        return _recorded(run, options)
    if run.has("profile"):
        return _profiled(run, limited, options, cycle)
    if run.has("kernels") or run.has("kernel_stats"):
        return _untimed(limited, options)
    nothing = "no device activity, operators or calls with times"
    if run.has("allocations"):
        nothing = "allocations of memory and no kernels: the memory view says who holds it"
    elif run.has("metrics"):
        first, last = run.metrics.select(
            pl.col("ts_ns").min(),
            last=pl.max_horizontal((pl.col("ts_ns") + pl.col("dur_ns")).max(), pl.col("ts_ns").max()),
        ).collect().row(0)
        over = f" over {units.duration(last - first)}" if first is not None else ""
        nothing = f"counters{over} (see the metrics view), but {nothing}"
    only = "only times of its cycles (see the cycles view)" if run.has("cycles") else nothing
    raise CannotAnswer(f"{run.info.label} holds {only}.")


def _recorded(run: Trace, options: Options) -> Overview:
    """The overview from a breakdown recorded by another tool."""
    rows = run.breakdown.collect()
    means = rows.filter(pl.col("step").is_null())
    steps = rows["step"].drop_nulls().n_unique()
    if means.is_empty():
        means = rows.group_by("category", maintain_order=True).agg(pl.col("time_ns").sum() / max(steps, 1))
    times = {str(name): float(ns) for name, ns in means.select("category", "time_ns").rows() if ns is not None}
    devices: list[dict[str, Any]] = [
        {"device": device.id, "name": device.name, **{gauge: device.properties.get(gauge) for gauge in GAUGES}}
        for device in run.info.devices
    ]
    window_ns = sum(times.values())
    evidence = replace(kernels(run, options), steps=steps, steps_each=steps, step_ns=window_ns, times=times,
                       devices=devices, measured=measured(run, run, options))
    cycles = view_cycles(run, options)
    spans = cycles.frame["dur_ns"].drop_nulls()
    step_ns = float(spans.to_numpy().mean()) if len(spans) else window_ns
    headline = span(cycles, "step") if len(spans) else f"mean step {units.duration(window_ns)}"
    basis = Basis(steps or None, window_ns, step_ns, "recorded")
    note = "The breakdown is the one another tool recorded, rounded to µs."
    return overview(run, times, "step", headline, evidence, basis, (note,))


def _profiled(run: Trace, limited: Trace, options: Options, cycle: int | None) -> Overview:
    """The overview from a per-cycle profile: mean time per kind over the cycles with complete device records."""
    cycles = view_cycles(run, options)
    if cycle is not None:
        cycles = replace(cycles, frame=cycles.frame.filter(pl.col("cycle") == cycle))
    whole = cycles.frame.filter("complete")
    # two processes may each have a cycle 3, with different start times
    timed = limited.profile.filter(pl.col("cycle_start_ns").is_not_null()).head(1).collect().height > 0
    same = ["cycle", "cycle_start_ns"] if timed else ["cycle"]
    marks = whole.lazy().select("cycle", pl.col("start_ns").alias("cycle_start_ns"))
    rows = (
        limited.profile.join(marks, on=same, how="semi", nulls_equal=True)
        .unique([*same, "pid", "function", "kind", "device"])
        .select(*same, "cycle_ns", "pid", "kind", "device", "dur_ns").collect(engine="streaming")
    )
    if rows.is_empty():
        raise CannotAnswer(f"{run.info.label} has no cycle with complete device records.")
    spans = rows.unique([*same, "pid"])
    count = spans.height
    length = int(spans["cycle_ns"].sum()) / count
    per_kind = rows.group_by(pl.col("kind").cast(pl.String)).agg(pl.col("dur_ns").sum() / count).rows()
    kinds: dict[str, float] = dict(per_kind)
    sums = {BY_KIND[kind]: ns for kind, ns in kinds.items() if kind in BY_KIND}
    times = {name: sums[name] for name in CATEGORIES if name in sums}
    times["Other"] = max(length - sum(times.values()), 0.0)
    devices = _profiled_devices(rows.filter(pl.col("kind").is_in(["kernel", "collective"])), spans)
    host = {name: kinds[kind] / length for kind, name in (("oncpu", "on_cpu"), ("runq", "queued")) if kind in kinds}
    evidence = replace(
        kernels(limited, options), steps=count, steps_each=count, step_ns=length, times=times, devices=devices,
        step_word="cycle",
        on_cpu=host.get("on_cpu"), queued=host.get("queued"), measured=measured(run, limited, options),
    )
    notes = (left_out(cycles), "Sums per function and cycle: overlap is not removed; Other is the rest of it.")
    step_ns = float(cycles.frame["dur_ns"].to_numpy().mean())
    basis = Basis(count, length, step_ns, cycles.source, cycles.frame.height - whole.height,
                  median_ns=median_length(cycles))
    lines = tuple(note for note in notes if note)
    return overview(run, times, "cycle", span(cycles, "cycle"), evidence, basis, lines, host)


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
    """The overview from launches or sums without timestamps: no wall time, only device time by kind."""
    evidence = replace(kernels(run, options), measured=measured(run, run, options))
    frame, _ = kernel_table(run, replace(options, cycle=None, cycle_b=None))
    kinds = dict(frame.group_by(pl.col("kind").cast(pl.String)).agg(pl.col("total_ns").sum()).rows())
    times = {BY_KIND[kind]: float(kinds[kind]) for kind in BY_KIND if kinds.get(kind)}
    notes = ("The input has no timestamps: no breakdown of the wall time, no utilisation; device time by kind.",)
    replay = ", serialised replay" if run.info.serialised else ""
    launched = units.counted(evidence.launches or 0, "launch", "launches")
    spent = f"{units.duration(sum(times.values()))} of device time" if times else "durations not recorded"
    headline = f"{launched} · {spent}{replay}"
    return overview(run, times, "run", headline, evidence, Basis(), notes)
