"""Reduces a recording to what the views of a job need: sums by cycle, kernel and idle cause, and its collectives.

The result is a Trace without launches, host slices and samples; the views of a job answer from its tables as they would
from the recording. Nothing here looks at other ranks: what needs all of them (who waited for whom, clocks, which cycles
were recorded whole) is computed when the dataset is queried.

Sums by cycle let a dataset be limited to some cycles; a collective comes with what its device did before it.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import polars as pl
from msgspec.structs import replace

from ...loaders import schema
from ...loaders.schema import is_work
from ...loaders.trace import REDUCED, TABLE_NAMES, Trace
from ..communication.by_kind import exposed_per_call
from ..communication.collectives import BEFORE, BETWEEN, Member, collectives_of
from ..communication.devices import communication
from ..communication.reasons import stretches
from ..contract.options import Options
from ..contract.view import CannotAnswer
from ..core.covered import COMPUTES, covered, timed
from ..core.intervals import union
from ..cycles.assignment import in_cycles
from ..cycles.detection import Cycles, counted_cycles, find_cycles
from ..cycles.profile import device_profile
from ..cycles.whole import cycle_around, cycle_of
from ..idle.attribution import Idle, idle_of
from ..idle.gaps import activities_of, gaps_of
from ..kernels.by_name import table as kernel_table
from ..kernels.sources import ACTIVITIES
from ..overview.overview import Overview
from ..overview.sources import overview_of
from ..overview.timed import RankFigures, overview_from_ranks, rank_figures
from ..ranks.memory import DeviceMemory, memory_by_cycle, memory_of, of_place

_RECORDED = (
    "by", "collective", "process_group", "group_ranks", "group_size", "dtype", "in_elements", "out_elements", "seq",
    "src_rank", "dst_rank", "stream", "name", "device", "rank",
)


def collectives(run: Trace, options: Options) -> pl.DataFrame:
    """The table ``collectives`` of the run, in order of device and start."""
    result = collectives_of(run)
    if result.frame.is_empty():
        return schema.empty("collectives").collect()
    frame = result.frame.select("index", "member", "start_ns", "dur_ns", "end_ns")
    cycle = cycle_of(run, frame.lazy(), options)
    frame = frame.with_columns(
        exposed_ns=pl.Series(exposed_per_call(run, result.frame, result.members), dtype=pl.Int64),
        cycle=pl.lit(None, pl.Int64) if cycle is None else cycle,
        from_ns=pl.col("end_ns").cum_max().shift(1).over("member"),
    )
    work = timed(run, COMPUTES).with_columns(pl.col("device").cast(pl.String))
    begins = dict(counted_cycles(run, options).frame.group_by("rank").agg(pl.col("start_ns").min()).rows())
    parts: list[pl.DataFrame] = []
    for (member,), own_rows in frame.group_by("member", maintain_order=True):
        who = result.members[member]
        own = work.filter(pl.col("rank").eq_missing(pl.lit(who.rank)), pl.col("device").eq_missing(pl.lit(who.device)))
        parts.append(_between(_before(run, who, own_rows), own, begins.get(who.rank, begins.get(None))))
    recorded = run.kernels.filter(pl.col("kind") == "collective").select("index", *_RECORDED)
    rows = pl.concat(parts).lazy().join(recorded, on="index", how="left", maintain_order="left")
    return rows.collect(engine="streaming")


def _before(run: Trace, who: Member, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of one device with the columns ``BEFORE``, null for its first collective."""
    first = rows["from_ns"].is_null()
    bounds = rows.select(
        "index", from_ns=pl.min_horizontal(pl.coalesce("from_ns", "start_ns"), "start_ns"), to_ns="start_ns"
    )
    sums = stretches(run, who, bounds)
    return rows.drop("from_ns", "end_ns", "member").with_columns(
        pl.Series(name, np.asarray(values), dtype=pl.Int64).set(first, None)
        for name, values in zip(BEFORE, sums, strict=True)
    )


def _between(rows: pl.DataFrame, work: pl.DataFrame, begin: int | None) -> pl.DataFrame:
    """The rows of one device with the columns ``BETWEEN``: its computation, cut at the starts and ends of its
    collectives; from ``begin`` (ns) on."""
    starts = work["start_ns"].to_numpy()
    busy = union(starts, starts + work["dur_ns"].to_numpy())
    edges = np.concatenate((rows["start_ns"].to_numpy(), (rows["start_ns"] + rows["dur_ns"]).to_numpy()))
    order = np.argsort(edges, kind="stable")
    first = min([int(edges[order[0]]), *starts.tolist()[:1]]) if begin is None else min(begin, int(edges[order[0]]))
    spent = np.empty(len(edges), dtype=np.int64)
    spent[order] = busy.within(np.concatenate(([first], edges[order][:-1])), edges[order])
    return rows.with_columns(pl.Series(name, part) for name, part in zip(BETWEEN, np.split(spent, 2), strict=True))


_KEYS = ("rank", "device", "cycle")


def cycle_devices(run: Trace, cycles: Cycles) -> pl.DataFrame:
    """The table ``cycle_device_sums`` of the run, in order of rank, device and cycle."""
    rows = (
        in_cycles(run, cycles.frame, cycles.device_time).filter(is_work())
        .select("rank", pl.col("device", "kind").cast(pl.String), "cycle", "start_ns", "dur_ns")
        .drop_nulls(["start_ns", "dur_ns"]).collect(engine="streaming")
    )
    rows = rows.with_columns(pl.col("dur_ns").clip(lower_bound=0))
    both, works = rows.filter(pl.col("kind").is_in(["collective", "kernel"])), rows.filter(COMPUTES)
    talks = both.filter(~COMPUTES)
    result = covered(rows, _KEYS, name="busy_ns").sort(_KEYS)
    for name, some, without in (("_any", both, None), ("comm_ns", talks, None), ("exposed_ns", talks, works)):
        result = result.join(covered(some, _KEYS, without, name), on=_KEYS, how="left", nulls_equal=True,
                             maintain_order="left")
    result = result.with_columns(pl.when(pl.col("_any").is_not_null()).then(pl.col(name).fill_null(0)).alias(name)
                                 for name in ("comm_ns", "exposed_ns"))
    memory = memory_by_cycle(run, cycles.frame)
    taken = [of_place(memory.get(cycle, {}), rank, device) for rank, device, cycle in result.select(_KEYS).rows()]
    return schema.conform("cycle_device_sums", result.with_columns(
        pl.Series(f"memory_{name}", [getattr(one, name) for one in taken], dtype=pl.Float64)
        for name in ("peak", "reserved", "total")
    ).lazy()).collect()


GAPS = 32  # Longest gaps of a rank that are kept individually.
_MEASURED = 4  # Increase when something is measured differently here.
VERSION = crc32(repr((_MEASURED, [[field.name for field in fields] for fields in schema.TABLES.values()])).encode())
"""Data that another version reduced, with other columns or measurements, is reduced again."""
Rows = list[dict[str, Any]]


def reduce(run: Trace) -> Trace:
    """The run reduced. A run without device activities keeps its cycles and has no device figures."""
    options = Options()
    cycles = find_cycles(run, options)
    counted = counted_cycles(run, options)
    figures = rank_figures(run, counted, usual=True)
    overview = _overview(run, options, counted, figures)
    rows = device_profile(run, options).filter(pl.col("kind").cast(pl.String).is_in(ACTIVITIES))
    tables = {
        "cycles": cycles.frame.with_columns(complete=cycles.marked) if cycles.marked is not None else cycles.frame,
        "cycle_sums": cycles.frame, "cycle_device_sums": cycle_devices(run, cycles),
        "kernel_stats": _kernels(run, options), "profile": rows.collect(engine="streaming"),
        "collectives": collectives(run, options), "rank_sums": pl.DataFrame(_ranks(run, cycles, dict(figures))),
        "device_sums": pl.DataFrame(_devices(run, dict(figures)), infer_schema_length=None),
        "breakdown": pl.DataFrame(_breakdown(figures), schema={"rank": pl.Int64, "category": pl.String,
                                                              "time_ns": pl.Int64}),
        "findings": pl.DataFrame(_findings(overview), infer_schema_length=None), **_idle(run, options),
    }
    result = {name: schema.conform(name, frame.lazy()) for name, frame in tables.items()}
    if len(run.info.ranks) == 1:
        rank = pl.col("rank").fill_null(run.info.ranks[0])
        result = {name: table.with_columns(rank) for name, table in result.items()}
    lost = [name for name in TABLE_NAMES if name not in result and run.has(name)]
    info = replace(run.info, facts={**run.info.facts, REDUCED: {"without": lost}})
    return Trace(info).with_tables(**result)


def _overview(
    run: Trace, options: Options, cycles: Cycles, figures: list[tuple[int | None, RankFigures]]
) -> Overview | None:
    if figures:
        return overview_from_ranks(run, run, options, cycles, [part for _, part in figures], None)
    try:
        return overview_of(run, options, "a")
    except CannotAnswer:
        return None


def _kernels(run: Trace, options: Options) -> pl.DataFrame:
    try:
        return kernel_table(run, options)[0]
    except CannotAnswer:
        return schema.empty("kernel_stats").collect()


def _ranks(run: Trace, cycles: Cycles, figures: dict[int | None, RankFigures]) -> Rows:
    """One row of ``rank_sums`` per rank of the run; in a run of one rank everything counts as that rank's."""
    ranks: tuple[int | None, ...] = run.info.ranks or (None,)
    hosts = run.info.facts.get("hosts") or {}
    work = run.kernels.filter(is_work())
    rows: Rows = []
    for place, rank in enumerate(ranks):
        only = None if len(ranks) == 1 else rank
        own = figures.get(only)
        matching = pl.lit(True) if only is None else pl.col("rank") == only
        spent = int(work.filter(matching).select(pl.col("dur_ns").sum()).collect(engine="streaming").item())
        row: dict[str, Any] = {
            "rank": rank, "host": hosts.get(str(rank)) or run.info.facts.get("host_name"), "source": run.info.source,
            "epoch_ns": run.info.epoch_ns, "bytes": run.info.bytes if not place else None, "label": cycles.anchor,
            "activities_ns": spent,
            # for several ranks in one recording only the totals are known; they are given to the first rank
            "before": cycles.before if not place else 0, "elsewhere": cycles.elsewhere if not place else 0,
            "in_cycles_ns": None if cycles.held is None else round(cycles.held * spent),
            "host_recorded": run.host.filter(matching).select(pl.len()).collect(engine="streaming").item() > 0,
        }
        if own is not None:
            row |= {
                "windows": len(own.windows), "windows_ns": own.windows.length, "whole_run": own.windows.whole_run,
                "launched": own.figures.launched, "early": own.figures.early,
            }
        rows.append(row)
    return rows


def _devices(run: Trace, figures: dict[int | None, RankFigures]) -> Rows:
    """One row of ``device_sums`` per rank and device that has activities with timestamps."""
    gaps = {(one.rank, one.device): one for one in gaps_of(activities_of(run))}
    talk = {(one.rank, one.device): one for one in communication(run)}
    memory = memory_of(run)
    only = run.info.ranks[0] if len(run.info.ranks) == 1 else None
    gauges = {
        (rank if rank is not None else only, gauge["device"]): (
            gauge, next((one for one in part.figures.communication if one.device == gauge["device"]), None))
        for rank, part in figures.items() for gauge in part.figures.devices
    }
    rows: Rows = []
    for rank, device in gaps:
        one, spoken = gaps[rank, device], talk.get((rank, device))
        taken: DeviceMemory = of_place(memory, rank, device)
        row: dict[str, Any] = {
            "rank": rank, "device": device, "window_ns": one.window_ns, "busy_ns": one.busy_ns,
            "idle_ns": one.idle_ns, "gaps": len(one.starts),
            "comm_ns": spoken.comm_ns if spoken else None, "exposed_ns": spoken.exposed_ns if spoken else None,
            "memory_peak": taken.peak, "memory_reserved": taken.reserved, "memory_total": taken.total,
        }
        gauge_of = gauges.get((rank, device)) or gauges.get((only, device))
        if gauge_of is not None:
            gauge, in_steps = gauge_of
            row |= {
                "steps_ns": gauge["window_ns"], "steps_busy_ns": gauge["busy_ns"],
                "steps_kernel_ns": gauge["kernel_ns"], "sm_efficiency": gauge["sm_efficiency"],
                "occupancy": gauge["occupancy"], "tensor_share": gauge["tensor_share"],
                "steps_comm_ns": in_steps and in_steps.comm_ns, "steps_exposed_ns": in_steps and in_steps.exposed_ns,
            }
        rows.append(row)
    return rows


def _breakdown(figures: list[tuple[int | None, RankFigures]]) -> Rows:
    """Time per category over all windows of each rank."""
    return [
        {"rank": rank, "category": name, "time_ns": time}
        for rank, part in figures for name, time in part.figures.times.items()
    ]


def _findings(overview: Overview | None) -> Rows:
    names = ("rule", "severity", "sentence", "cost_ns", "view", "filter")
    rules = overview.findings if overview is not None else ()
    return [{name: getattr(one, name) for name in names} for one in rules] or [dict.fromkeys(names)][:0]


def _idle(run: Trace, options: Options) -> dict[str, pl.DataFrame]:
    """Idle time by cause, and the longest gaps."""
    idle: Idle | None = idle_of(run, run) if run.has("kernels") else None
    if idle is None:
        return {}
    causes = pl.DataFrame(
        [(one.rank, one.device, cause, total) for one in idle.devices for cause, total in one.causes.items()],
        schema={"rank": pl.Int64, "device": pl.String, "cause": pl.String, "total_ns": pl.Int64}, orient="row",
    )
    longest = idle.gaps.filter(pl.int_range(pl.len()).over("rank") < GAPS).collect()
    cycle = cycle_around(run, longest, options)
    if cycle is not None:
        longest = longest.with_columns(cycle=cycle)
    return {"idle_causes": causes, "idle_gaps": longest}
