"""Answers that never change, for pictures of the screens.

A snapshot is to fail when a screen changes and not when an analysis does, so the views it shows have columns and rows
of their own, in the shapes the real ones have.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import polars as pl
import pytest
from app_runs import NAMES

from warplens.analysis.details.sections import Section
from warplens.analysis.table.column import Column
from warplens.analysis.table.view import Answer, Runs, View
from warplens.analysis.views import VIEWS

NAME = Column("name", "kernel", "text", "name as recorded", 34, order=0, elastic=True, pinned=True, role="name")
TIME = Column("total_ns", "total", "ns", "summed duration", 10, order=0)
SHARE = Column("share", "share", "fraction", "of the summed duration", 6, order=1)
COUNT = Column("count", "count", "count", "launches", 7, order=2)
TREND = Column("trend", "latency", "trend", "distribution, log axis", 12, order=4)
TENSOR = Column("tensor", "tensor", "fraction", "tensor-core use of peak", 12, order=3, bar="tensor")
DRAM = Column("dram", "DRAM", "fraction", "DRAM throughput of peak", 12, order=3, bar="dram")
BOUND = Column("bound", "bound", "text", "what holds it back", 7, order=5)


def both(column: Column) -> tuple[Column, ...]:
    """The column for A, for B, and the difference."""
    return tuple(
        Column(f"{column.name}_{side}", f"{'Δ ' if side == 'delta' else ''}{column.header} {tail}".strip(), column.unit,
               column.help, column.width, order=column.order, signed=side == "delta")
        for side, tail in (("a", "A"), ("b", "B"), ("delta", ""))
    )


def kernels(runs: Runs, options: object) -> Answer:
    """Six kernels by total time."""
    totals = [26_500_000, 8_520_000, 6_880_000, 6_310_000, 1_390_000, 61_000]
    columns: dict[str, Any] = {"name": list(NAMES)}
    sides = {"": 1.0} if len(runs) == 1 else {"_a": 1.0, "_b": 1.3}
    for tail, factor in sides.items():
        columns |= {f"total_ns{tail}": [int(total * factor) for total in totals]}
        columns |= {f"count{tail}": [293, 389, 494, 48, 61, 2]}
        columns |= {f"share{tail}": [total / sum(totals) for total in totals]}
    if len(runs) == 1:
        columns["trend"] = [[1, 5, 9, 2, 1, 0, 0, 3, 1, 0, 0, 1], [9, 1], [1, 9], [2, 2, 2, 9], [], [1]]
        columns |= {"tensor": [0.53, 0.02, 0.0, 0.0, None, 1.0], "dram": [0.12, 0.18, 0.39, 0.7, 0.05, None]}
        columns["bound"] = ["compute", "low", "low", "memory", None, "launch"]
    else:
        columns["total_ns_delta"] = [b - a for a, b in zip(columns["total_ns_a"], columns["total_ns_b"], strict=True)]
        columns["count_delta"], columns["share_delta"] = [0] * 6, [0.0] * 6
    return Answer(pl.LazyFrame(columns), summary=("1,287 launches · 49.66 ms of kernel time",))


def launches(runs: Runs, options: object) -> Answer:
    """Two hundred launches."""
    rows = range(200)
    return Answer(pl.LazyFrame({
        "index": list(rows), "start_ns": [1_000 * row for row in rows],
        "dur_ns": [800 + 37 * (row % 11) for row in rows],
        "name": [NAMES[row % 6] for row in rows], "tensor": [0.1 * (row % 10) for row in rows],
    }))


def ops(runs: Runs, options: object) -> Answer:
    """One operator that could not be timed, one that could."""
    columns = {"name": ["aten::mm", "aten::add_"], "calls": [120, 48], "device_self_ns": [9_500_000, None]}
    return Answer(pl.LazyFrame(columns))


def cycles(runs: Runs, options: object) -> Answer:
    """Ten cycles beside eight, two of them slow."""
    edges = [735e6, 763e6, 790e6, 850e6, 900e6, 950e6, 1001e6]
    shape = {"edges_ns": edges, "a": [9, 1, 0, 0, 0, 0], "b": [6, 0, 0, 1, 0, 1]}
    a = [771_619_000, 757_964_000, 756_964_000, 750_100_000, 749_000_000]
    b = [1_001_081_000, 863_022_000, 762_219_000, 751_400_000, None]
    delta = [None if one is None else one - other for other, one in zip(a, b, strict=True)]
    return Answer(
        pl.LazyFrame({"time_rank": [1, 2, 3, 4, 5], "a_ns": a, "b_ns": b, "delta_ns": delta,
                      "cycle_a": [11, 8, 3, 12, 2], "cycle_b": [10, 9, 3, 2, None]}),
        facts={"histogram": shape},
        summary=("A normal 10 · B abnormal 8 · anchor run_batch, recorded",
                 "mean 750.05 → 785.00 ms (+4.66%), median 750.4 → 751.4 (+0.1%): two slow cycles, no general shift"),
    )


def overview(runs: Runs, options: object) -> Answer:
    """A step that waits for its data."""
    frame = pl.LazyFrame({
        "category": ["Kernel", "Memcpy", "Communication", "Runtime", "DataLoader", "CPU Exec", "Other"],
        "time_ns": [98_590_000, 1_920_000, 0, 2_910_000, 59_260_000, 13_670_000, 1_160_000],
        "share": [0.555, 0.011, 0.0, 0.016, 0.334, 0.077, 0.007],
    })
    device = {"device": "GPU 0", "utilisation": 0.555, "sm_efficiency": 0.547, "occupancy": 0.491, "tensor_share": 0.0}
    return Answer(frame, {"devices": [device], "findings": [
        "The host waits for the DataLoader 33% of the step (59.26 ms of 177.5 ms), with devices idle.",
        "No kernel is named after tensor cores, though 66% of the device time is in operators that could be.",
    ]})


def diff(runs: Runs, options: object) -> Answer:
    """One cause, four rows."""
    return Answer(
        pl.LazyFrame({"function": list(NAMES[:4]), "device": ["GPU 7"] * 4, "delta_ms": [49.4, 38.7, 2.2, -0.4],
                      "verdict": ["slower", "slower", "slower", "~"], "suspicion": [1562.0, 900.0, 20.0, 0.1]}),
        summary=(
            "Cycle   unchanged: 750 → 751 ms, +2.6 [−9, +19]; two slow ones, B9 and B10, with more host time",
            "GPU     busy 45 → 161 ms per cycle (3.6×), still 79% idle: hidden behind the host",
            "Changed gpu_sm_frequency 1,187 → 210 MHz on GPU 7: explains the GPU line, not the slow cycles",
            "Data    comparable; 6 of 22 cycles lack GPU records; by chance a row moves up to ±0.02 ms",
        ),
    )


def glance(runs: Runs, options: object) -> Callable[[dict[str, Any]], list[Section]]:
    """What stands beside a list: a distribution, who launched it, and what a cycle is compared with."""
    shape = {"edges_ns": [10e3, 20e3, 30e3, 40e3, 50e3, 60e3], "a": [120, 90, 4, 0, 1]}
    if len(runs) > 1:
        shape["b"] = [2, 80, 110, 20, 3]
    titles = ("launches", "p50", "p99")
    rows: tuple[tuple[str, ...], ...] = (("215", "18.10 µs", "55.20 µs"),)
    if len(runs) > 1:
        titles, rows = ("", *titles), (("A", *rows[0]), ("B", "215", "31.40 µs", "58.00 µs"))
    line = "modeling_bert.py:364 forward"
    callers = (("aten::addmm", line, "200", "4.10 ms"), ("aten::mm ← aten::linear", "–", "15", "210.0 µs"))
    return lambda row: [
        Section("Latency", rows, titles, shape=shape),
        Section("Launched by", callers, ("operator", "from", "count", "total")),
        Section("Beside the median of 9 like it", (("time", "863.0 ms, +113.0 ms (+15.1%)"),)),
    ]


ROOM: dict[str, Any] = {"details": lambda row, runs, options: [], "glance": glance}
FIXED = {
    "kernels": View("kernels", (NAME, TIME, SHARE, COUNT, TREND, TENSOR, DRAM, BOUND), kernels,
                    pair_columns=(NAME, *both(TIME), *both(SHARE), *both(COUNT)), **ROOM),
    "launches": View("launches", launch_columns := (
        Column("index", "#", "count", "recorded order", 7, order=0, pinned=True),
        Column("start_ns", "start", "ns", "from the start of the trace", 10, order=2),
        Column("dur_ns", "duration", "ns", "duration", 9, order=0), NAME, TENSOR), launches, launch_columns),
    "ops": View("ops", (
        Column("name", "operator", "text", "operator", 30, order=0, elastic=True, pinned=True, role="name"),
        Column("calls", "calls", "count", "calls", 8, order=1),
        Column("device_self_ns", "device self", "ns", "own kernels", 12, order=0)), ops),
    "cycles": View("cycles", cycle_columns := (
        Column("time_rank", "rank", "number", "place by time", 5, order=0, pinned=True),
        Column("a_ns", "A", "ns", "time in A", 12, order=0), Column("b_ns", "B", "ns", "time in B", 12, order=0),
        Column("delta_ns", "Δ", "ns", "B − A", 12, order=0, signed=True),
        Column("cycle_a", "cycle A", "number", "number in A", 8, order=2),
        Column("cycle_b", "cycle B", "number", "number in B", 8, order=2)), cycles, cycle_columns, **ROOM),
    "overview": View("overview", (
        Column("category", "category", "text", "part of the step", 16, order=0),
        Column("time_ns", "time", "ns", "mean per step", 10, order=0),
        Column("share", "share", "fraction", "of the step", 7, order=0)), overview),
    "diff": View("diff", (
        Column("function", "kernel", "text", "function", 30, order=0, elastic=True, pinned=True, role="name"),
        Column("device", "device", "text", "device", 6, order=2),
        Column("delta_ms", "Δ ms/cycle", "ms", "B − A", 10, order=0, signed=True),
        Column("verdict", "verdict", "text", "slower or not", 8, order=0),
        Column("suspicion", "suspicion", "number", "the reference score", 10, order=5)), diff,
        alternates=("suspicion",), one_run=False, **ROOM),
}


def fix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every view answer with what never changes."""
    for entry in VIEWS:
        if entry.name in FIXED:
            monkeypatch.setattr(import_module(f"warplens.analysis.views.{entry.module}"), "VIEW", FIXED[entry.name])
