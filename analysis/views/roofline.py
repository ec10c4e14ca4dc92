"""Roofline: how far each operator is from its device's peak, by its shapes, and the time lost above its least time.

Work follows from recorded shapes (``analysis/work``), peaks from data sheets. One row per operator, shapes and type.
Rows cover everything in scope, including warm-up and incomplete cycles; MFU covers whole cycles only.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..contract.column import ABOVE_PEAK, Column, pair_columns
from ..contract.options import Options, Side
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core import units
from ..core.callers import callers_of
from ..core.text import display, few_shapes
from ..cycles.paired import OneRun, paired
from ..cycles.scope import with_host_of_parent
from ..work.compiled import compiled_rows, has_compiled_work
from ..work.counters import has_counters, rows_of
from ..work.details import sections
from ..work.operators import doubt
from ..work.peaks import BadPeaks
from ..work.roofline import Roofline, facts_of, roofline_of

COLUMNS = (
    Column("op", "operator", "text", "operator as recorded", 30, order=0, elastic=True, pinned=True, role="name",
           pairs="key"),
    Column("shapes", "shapes", "text", "input shapes, in order", 18, order=0, elastic=True, role="shapes", pairs="key"),
    Column("dtype", "type", "text", "operand type, which selects the peak; empty where it has none", 5, order=3,
           role="label", pairs="key"),
    Column("device", "device", "text", "device it ran on; devices of one model share a row, copies over a link have "
           "their own", 7, order=8, role="where", pairs="key"),
    Column("calls", "calls", "count", "calls", 7, order=4, role="count", pairs="sum"),
    Column("device_ns", "device time", "ns", "time of everything it launched, including copies and memsets", 11,
           order=1, role="time", pairs="sum"),
    Column("flops", "FLOPs", "number", "FLOPs of one call", 9, order=6, pairs="side"),
    Column("bytes", "bytes", "bytes", "minimum bytes one call must move; where counters tell, the bytes it moved",
           9, order=6, pairs="side"),
    Column("intensity", "FLOP/B", "number", "FLOPs per byte", 8, order=7, pairs="side"),
    Column("flops_per_s", "FLOP/s", "number", "achieved FLOP/s", 9, order=None),
    Column("bytes_per_s", "achieved", "rate", "achieved B/s, for these bytes", 9, order=None),
    Column("compute_of_peak", "compute", "fraction", "achieved FLOP/s, share of peak", 8, order=0, bar="tensor",
           of="of peak FLOP/s"),
    Column("memory_of_peak", "memory", "fraction", "achieved B/s, share of peak", 8, order=0, bar="dram",
           of="of peak B/s"),
    Column("bound", "bound", "text", "peak that sets its least time: compute or memory; link: a copy to the host or "
           "another device", 7, order=3, role="label"),
    Column("least_ns", "least", "ns", "time all its calls take at peak", 9, order=5, pairs="sum"),
    Column("lost_ns", "lost", "ns", "device time above its least time", 9, order=0, pairs="sum"),
    Column("above_peak", "> peak", "bool", "above 110% of a peak, so the estimate is wrong", 6, order=None),
    Column("inputs", "inputs", "text", "values of its other inputs, where the work depends on them", 10, order=None,
           role="label", pairs="key"),
)
SM_CLOCK = r"(?i)\bsm[ _]?(clock|freq)|gpu_sm_freq|sm_clk|gfx_?clk|clocks?\.(current\.)?sm"
CLOCK = 0.95
"""A mean SM clock below this share of the boost clock is noted."""
_NAMES = [column.name for column in COLUMNS]
_DTYPES = {"str": pl.String(), "int": pl.Int64(), "float": pl.Float64(), "bool": pl.Boolean()}


def one_run(run: Trace, options: Options, side: Side = "a") -> OneRun:
    """The rows, facts and notes of one run. Raises CannotAnswer."""
    run = with_host_of_parent(run) or run
    if not run.has("kernels"):
        raise CannotAnswer(f"{run.info.label} holds no launches, so there is nothing to compare with a peak.")
    try:
        roofline = roofline_of(run)
    except BadPeaks as error:
        raise CannotAnswer(str(error)) from None
    shaped = run.has("host.shapes") or run.captures is not None
    if not shaped and has_counters(run):
        return _by_counters(run)
    if not shaped and has_compiled_work(run):
        return _compiled(run)
    if roofline is None or not shaped:
        of_xla = run.info.format == "xla" or "JAX" in (run.info.tool or "")
        how = "carries no HLO: record with jax.profiler.trace, which adds it" if of_xla else (
            "holds no shapes of operators; record with torch.profiler.profile(record_shapes=True)")
        raise CannotAnswer(f"{run.info.label} {how}.")
    facts = facts_of(run, options, side)
    clocks = _clocks(run, roofline)
    for device in facts["devices"]:
        device["clock_mhz"], device["peak_clock_mhz"] = clocks.get(device["device"], (None, None))
    return OneRun(roofline.rows.select(_NAMES), facts, _sentences(roofline, facts), _notes(run, roofline))


def _compiled(run: Trace) -> OneRun:
    """The ops of a compiled program, from its HLO."""
    rows = compiled_rows(run)
    frame = rows.with_columns(
        pl.lit(None, _DTYPES[column.dtype]).alias(column.name) for column in COLUMNS if column.name not in rows.columns)
    spent = int(rows["device_ns"].sum())
    known = int(rows.filter(pl.col("flops").is_not_null())["device_ns"].sum())
    note = ("By op, from the HLO of the profile: FLOPs of its matrix products and convolutions, those that cuBLAS does "
            "included (xprof gives these none), bytes of its operands and result; of other custom calls neither. Calls "
            "are executions of the op. Products of fp32 may run as tf32, whose rate is then their peak.")
    facts: dict[str, Any] = {"covered": known / spent if spent else None, "mfu": None, "flops_per_cycle": None,
                             "devices": []}
    said = f"Work known for {units.percent(100 * known / max(spent, 1))} of kernel time."
    return OneRun(frame.select(_NAMES), facts, (said,), (note,))


def _by_counters(run: Trace) -> OneRun:
    """The kernels of a run without shapes, from recorded counters."""
    rows = rows_of(run)
    frame = rows.with_columns(
        pl.lit(None, _DTYPES[column.dtype]).alias(column.name) for column in COLUMNS if column.name not in rows.columns)
    note = ("By kernel, from recorded counters: shares of the peaks, not FLOPs, and the bytes that moved where reads "
            "and writes were counted. The least time is the part in which the busier of tensor cores and memory was "
            "busy.")
    facts: dict[str, Any] = {"covered": None, "mfu": None, "flops_per_cycle": None, "devices": []}
    return OneRun(frame.select(_NAMES), facts, _moved(rows), notes=(note,))


def _moved(rows: pl.DataFrame) -> tuple[str, ...]:
    """What the kernel with the most device time moved, and how fast; empty where traffic was not counted."""
    counted = rows.drop_nulls("bytes_per_s").sort("device_ns", descending=True)
    if counted.is_empty():
        return ()
    top = counted.row(0, named=True)
    share = "" if top["memory_of_peak"] is None else f", {units.percent(100 * top['memory_of_peak'])} of peak"
    return (f"{display(top['op'])} moves {units.size(top['bytes'])} a call at {units.number(top['bytes_per_s'] / 1e9)} "
            f"GB/s{share}.",)


def _sentences(roofline: Roofline, facts: dict[str, Any]) -> tuple[str, ...]:
    """The operator with the largest lost time; MFU, FLOPs per cycle, and the share of device time with known work."""
    lines = []
    rows = roofline.rows.filter(pl.col("lost_ns") > 0)
    total = int(roofline.activities.filter(is_work())["dur_ns"].sum())
    if rows.height and total:
        top = rows.row(0, named=True)
        of = top["compute_of_peak"] if top["bound"] == "compute" else top["memory_of_peak"]
        peak = f"{top['dtype']} peak" if top["bound"] == "compute" else "peak memory bandwidth"
        more = "or more " if top["bound"] == "memory" and doubt(top["op"]) else ""
        sizes = f" ({few_shapes(top['shapes'])})" if top["shapes"] else ""
        lines.append(
            f"{display(top['op'])}{sizes} runs at {units.percent(100 * of)} {more}of {peak} "
            f"for {units.percent(100 * top['device_ns'] / total)} of device time: "
            f"{units.duration(top['lost_ns'])} above its least time.")
    parts = []
    if facts["mfu"] is not None:
        parts.append(f"{'HFU' if roofline.recomputes else 'MFU'} {units.percent(100 * facts['mfu'])}")
    if facts["flops_per_cycle"] is not None:
        parts.append(f"{units.work(facts['flops_per_cycle'])} a cycle")
    if roofline.known_share is not None:
        parts.append(f"work known for {units.percent(100 * roofline.known_share)} of device time without collectives")
    return (*lines, " · ".join(parts)) if parts else tuple(lines)


def _notes(run: Trace, roofline: Roofline) -> tuple[str, ...]:
    """Notes on unknown, unconfirmed or scaled peaks, low clocks, implausible rows and time without known work."""
    notes = []
    for device in run.info.devices:
        peak, name = roofline.peaks.get(device.id), device.name or "a device without a name"
        if peak is None:
            notes.append(f"No peak is known for {name}; give one under [peaks] in the settings.")
            continue
        if peak.claimed:
            notes.append(f"Peaks of {peak.model} are claimed: no second source confirms them.")
        if peak.scaled < 1:
            notes.append(f"{name} has {units.percent(100 * peak.scaled)} of the units of {peak.model}: peaks are "
                         "scaled.")
    for where, (clock, most) in _clocks(run, roofline).items():
        mean = f"{units.number(clock)} of {units.number(most)} MHz on average"
        notes.append(f"SM clock of {display(where)} was {mean}: at that clock "
                     f"its FLOP/s are {units.percent(100 * clock / most, places=0)} of the peak.")
    rows = roofline.rows
    above = rows.filter("above_peak")
    if above.height:
        notes.append(f"{units.counted(above.height, 'row is', 'rows are')} above {ABOVE_PEAK:.0%} of a "
                     "peak: data that stays in a cache, or work counted that the kernel does not do.")
    for name in rows.drop_nulls("bytes")["op"].unique(maintain_order=True).cast(pl.String):
        if (why := doubt(name)):
            notes.append(f"Bytes of {display(name)} are a lower bound: {why}.")
    wrong = rows.filter("contradicts")
    if wrong.height:
        notes.append(f"Shapes of {units.counted(int(wrong['calls'].sum()), 'call', 'calls')} contradict the operator "
                     f"({_names(wrong['op'].unique(maintain_order=True))}): no work is counted for them.")
    computing = ~pl.col("op").cast(pl.String).str.contains("record_param_comms|^(c10d|nccl|symm_mem)::")
    rows = rows.filter(computing)
    unknown = rows.filter(pl.col("flops").is_null()).group_by("op").agg(pl.col("device_ns").sum()).sort(
        "device_ns", descending=True)
    total = int(rows["device_ns"].sum())
    if unknown.height and total:
        share = int(unknown["device_ns"].sum()) / total
        notes.append(f"The work of {units.percent(100 * share)} of the time of operators that compute is not known, "
                     f"most of it {_names(unknown['op'])}.")
    counted = roofline.activities.filter(is_work())
    nobody = int(counted.filter(pl.col("signature") < 0)["dur_ns"].sum())
    every = int(counted["dur_ns"].sum())
    if nobody and every:
        callers = callers_of(run)
        graphs = "by graph replays whose operators were not recorded, or " if callers and callers.replayed else ""
        notes.append(f"{units.percent(100 * nobody / every)} of the device time was launched {graphs}by no recorded "
                     "operator.")
    return tuple(dict.fromkeys(notes))


def _clocks(run: Trace, roofline: Roofline) -> dict[str, tuple[float, float]]:
    """Mean and boost SM clock in MHz of each device whose mean was below ``CLOCK`` of the boost clock."""
    if not run.has("metrics"):
        return {}
    means = run.metrics.filter(
        pl.col("metric").cast(pl.String).str.contains(SM_CLOCK), pl.col("unit").cast(pl.String) == "MHz",
    ).group_by(pl.col("device").cast(pl.String)).agg(pl.col("value").mean()).sort("device").collect(engine="streaming")
    most = {device: peak.size.get("boost_mhz") for device, peak in roofline.peaks.items()}
    return {device: (clock, top) for device, clock in means.drop_nulls().rows()
            if (top := most.get(device)) and clock < CLOCK * top}


def _names(operators: pl.Series) -> str:
    return ", ".join(map(display, operators.head(3)))


def build(runs: Runs, options: Options) -> Answer:
    """The operators of one run by time lost, or of two runs side by side."""
    if len(runs) == 1:
        return one_run(runs[0], options).answer()
    return paired(runs, options, COLUMNS, one_run)


VIEW = View("roofline", COLUMNS, build, pair_columns=pair_columns(COLUMNS), noun="operators", details=sections)
"""Raises CannotAnswer where neither shapes nor counters were recorded."""
