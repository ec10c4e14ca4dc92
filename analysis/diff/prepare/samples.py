"""The cycles of two runs as matrices: the time of each function in each cycle, for one process of A and one of B.

Not recorded is NaN, not called is 0: in a cycle that was not recorded whole (cycle detection decides), device functions
are NaN; in a whole cycle a function without a record took no time. Which cycles are compared is the judge's decision.
``SampleCoverage`` counts what was not recorded, for display.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from ....loaders.schema import NAME
from ....loaders.trace import Trace
from ...contract.options import Options
from ...core.batches import Ints, ids, numbered
from ...core.derived import derived, is_stored
from ...core.processes import Processes, ProcessPair, job_pairs, process_pairs, processes_of
from ...cycles.detection import Cycles, find_cycles
from ...cycles.profile import profile, profile_parts
from ..judge import Floats

Flags = NDArray[np.bool_]
HOST = "Host"
IDLE = "idle"  # Kind of the rows that hold a device's idle time by cause.
SWAPPED = "op"
"""Kind of the rows that hold an operator's swapped kernels on a device; operators on the host have it too."""
_WORK = ("cycle", "pid", "function", "device", "kind", "dur_ns", "instances", "cycle_ns")
_READ = ("cycle", "pid", "function", "device", "metric", "beta", "mu", "dur_ns")
_NAMES = ("function", "device", "metric")
_BLOCK = 1 << 18  # Rows added to a matrix at once.
_DEVICE_API = re.compile(r"^(cu|cuda|hip|hsa)[A-Z_]")


class RunSamples(Struct, frozen=True):
    """One process of one run. Matrices have a row per function and a column per cycle; times are in ms. ``whole`` flags
    the cycles that have all their device records, ``timed`` those whose length is known (default: the whole ones)."""

    cycles: NDArray[np.int64]
    cycle_ms: Floats
    whole: Flags
    ms: Floats
    launches: Floats
    timed: Flags | None = None

    @property
    def seen(self) -> Flags:
        """Where a function's time is known."""
        return ~np.isnan(self.ms)


class SampleCoverage(Struct, frozen=True):
    """Counts for one side: all cycles, and cycles without all device records."""

    cycles: int
    not_whole: int


class Matched(Struct, frozen=True):
    """One process of A matched with one of B: ``functions`` (function device kind) are the rows of their matrices."""

    pair: ProcessPair
    functions: pl.DataFrame
    a: RunSamples
    b: RunSamples
    coverage_a: SampleCoverage
    coverage_b: SampleCoverage

    @property
    def on_device(self) -> Flags:
        """Which rows are functions that ran on a device: not idle time, nor operators standing for their kernels."""
        ran = ~self.functions["kind"].is_in([IDLE, SWAPPED]).fill_null(False)
        result: Flags = ((self.functions["device"] != HOST).fill_null(True) & ran).to_numpy()
        return result

    @property
    def on_host(self) -> Flags:
        """Which functions ran on the host."""
        result: Flags = (self.functions["device"] == HOST).fill_null(False).to_numpy()
        return result


class Work(Struct, frozen=True):
    """The recorded work of one run: rows of ``_WORK``, its metrics, and its cycles that were not recorded whole.
    ``run`` is the recording itself, for questions the rows cannot answer; None if only the rows are known.
    ``processes`` are those of a job by key (see ``Processes``); rows and metrics then have the keys as ``pid``.
    ``steps``: the step time (ns) of each cycle, by rank and number, where it is known; ``marked``: whether the
    recording says where they begin and end, so that even one that lacks records has its length."""

    rows: pl.DataFrame
    metrics: pl.DataFrame
    incomplete: frozenset[int]
    kinds: dict[int, str]
    run: Trace | None = None
    processes: Processes = {}
    steps: dict[tuple[int | None, int], int] = {}
    marked: bool = False


def work_of(run: Trace, options: Options) -> Work:
    """The time of each function in each cycle; no rows if the run has no cycles. Sorted rows are cached: for two runs
    of 2 GB, the next query takes 0.7 s and 190 MB less per run."""
    every = find_cycles(run, options)  # before the rows: for a recorded profile it takes as much memory
    cycles = every.frame
    stored = is_stored(run) and options.cycle_anchor is None and options.warm_up and not run.has("profile")
    tables = cache(lambda: profile_parts(run, options) if stored else (profile(run, options),) * 2)

    def once(name: str, find: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        return derived(run, name, find) if stored else find()

    processes = processes_of(once("work-processes", lambda: (
        tables()[0].select("pid", "rank").unique().collect(engine="streaming"))))
    rows = once("work", lambda: _in_order(tables()[0], processes, _WORK, once=True))
    metrics = once("work-metrics", lambda: _in_order(_measured(tables()[1]), processes, _READ))
    if rows.is_empty():
        return Work(rows, metrics, frozenset(), {}, run)
    return Work(
        rows, metrics,
        frozenset(cycles.filter(~pl.col("complete"))["cycle"].to_list()),
        {c: k for c, k in cycles.select("cycle", pl.col("kind").cast(pl.String)).rows() if k is not None},
        run, processes,
        {(rank, c): ns for rank, c, ns in _lengths(every).rows()}, not every.guessed,
    )


def _lengths(cycles: Cycles) -> pl.DataFrame:
    """``rank cycle step_ns`` of the cycles whose step time is known: of marked ones also where records are missing,
    since their marks still bound them. A guessed one that lacks some may not end where it seems to."""
    own = cycles.frame.select("row", "rank", "cycle", "step_ns")
    if not cycles.guessed and not cycles.times.devices.is_empty():
        main = cycles.times.main().select("row", of_main="step_ns").unique("row", keep="first")
        own = own.join(main, on="row", how="left", maintain_order="left").with_columns(
            pl.coalesce("step_ns", "of_main"))
    return own.select("rank", "cycle", "step_ns").drop_nulls("step_ns")


def _measured(table: pl.LazyFrame) -> pl.LazyFrame:
    return table.filter(
        pl.col("metric").is_not_null() & (pl.col("metric").cast(pl.String) != "N/A") & pl.col("mu").is_not_null()
    )


def _as_called(table: pl.DataFrame, processes: Processes) -> pl.DataFrame:
    """The rows with the keys of a job's processes as ``pid``: a process keeps its pid if no other rank has it."""
    if all(called == process.pid for called, process in processes.items()):
        return table
    names = pl.DataFrame(
        [(*process, called) for called, process in processes.items()],
        schema={"pid": pl.Int64, "rank": pl.Int64, "called": pl.Int64}, orient="row",
    )
    joined = table.join(names, on=["pid", "rank"], how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(pid="called").drop("called")


def _in_order(table: pl.LazyFrame, processes: Processes, columns: tuple[str, ...], once: bool = False) -> pl.DataFrame:
    """These columns sorted by pid, device, function, cycle and metric; with ``once`` one row per function and cycle.
    Names stay categorical: as strings, those of three million rows take 600 MB per run to hold and sort. Columns that
    are no sort key are read one at a time, once the order is known."""
    keys = table.select("cycle", "pid", "rank", *_NAMES).with_columns(pl.col(_NAMES).cast(NAME))
    rows = _as_called(keys.collect(engine="streaming"), processes).drop("rank")
    order = _order(rows, once)
    result = {name: rows[name].gather(order) for name in rows.columns if name in columns}
    del rows
    for name in columns:
        if name not in result:
            result[name] = table.select(name).collect(engine="streaming")[name].gather(order)
    return pl.DataFrame(result).select(columns).with_columns(pl.col(pl.String).cast(NAME))


def _order(rows: pl.DataFrame, once: bool) -> pl.Series:
    """The row numbers to take, in sorted order."""
    function = numbered(ids(rows["pid"]), _ranks(rows["device"]), _ranks(rows["function"]), ids(rows["cycle"]))
    order = np.argsort(numbered(function, _ranks(rows["metric"])), kind="stable")
    if once:
        result = function[order]
        order = order[np.append(True, result[1:] != result[:-1])[: len(order)]]
    return pl.Series(order.astype(np.uint32))


def _ranks(names: pl.Series) -> Ints:
    """The rank of each name among the sorted distinct names, -1 for null."""
    distinct = names.unique().drop_nulls()
    codes = distinct.to_physical().to_numpy()
    place = np.full(int(codes.max(initial=0)) + 2, -1, dtype=np.int64)
    place[codes] = distinct.cast(pl.String).rank("ordinal").to_numpy()
    result: Ints = place[names.to_physical().fill_null(len(place) - 1).to_numpy()]
    return result


def match(a: Work, b: Work, options: Options) -> list[Matched]:
    """Every pair of processes as matrices. Raises CannotAnswer for an unknown pid."""
    pairs = job_pairs(a.processes, b.processes, options)
    if pairs is None:
        pairs = process_pairs(a.rows["pid"].unique().to_list(), b.rows["pid"].unique().to_list(), options)
    pairs = _by_devices(pairs, a, b)
    of_a, of_b = (_by_process(work.rows) for work in (a, b))
    result = []
    for pair in pairs:
        own, theirs = of_a.get((pair.a,), a.rows.clear()), of_b.get((pair.b,), b.rows.clear())
        own, theirs = (
            _of_pair(own, theirs, [of_b.get((one.b,), theirs) for one in pairs if one.a == pair.a]),
            _of_pair(theirs, own, [of_a.get((one.a,), own) for one in pairs if one.b == pair.b]))
        runs = function_runs(own), function_runs(theirs)
        keys = pl.concat(runs).group_by("function", "device", maintain_order=True).agg(pl.col("kind").first())
        side_a, coverage_a = _side(own, runs[0], keys, a, pair.rank)
        side_b, coverage_b = _side(theirs, runs[1], keys, b, pair.rank)
        functions = keys.with_columns(pl.col("function", "device", "kind").cast(pl.String))
        result.append(Matched(pair, functions, side_a, side_b, coverage_a, coverage_b))
    return result


def _by_devices(pairs: list[ProcessPair], a: Work, b: Work) -> list[ProcessPair]:
    """Strict pairs, and of the crossed ones those whose processes used the same devices, else those that share some;
    processes left in both runs are paired in order. A process without a partner is in no pair."""
    result = [pair for pair in pairs if pair.strict]
    left = [pair for pair in pairs if not pair.strict]
    used_a, used_b = (
        {pid: set(of_process(work.rows, pid).filter(pl.col("device") != HOST)["device"].unique()) for pid in pids}
        for work, pids in ((a, {pair.a for pair in left}), (b, {pair.b for pair in left})))
    for fits in (set.__eq__, set.intersection):
        some = [pair for pair in left if fits(used_a[pair.a], used_b[pair.b])]
        own, theirs = {pair.a for pair in some}, {pair.b for pair in some}
        left = [pair for pair in left if pair.a not in own and pair.b not in theirs]
        result += some
    while left:
        result.append(left[0])
        left = [pair for pair in left if pair.a != left[0].a and pair.b != left[0].b]
    return result


def _of_pair(rows: pl.DataFrame, partner: pl.DataFrame, partners: list[pl.DataFrame]) -> pl.DataFrame:
    """The rows without those on devices that another of the process's partners used and this one did not: they are
    compared with that one's."""
    used = (set(one["device"].unique()) for one in partners if one is not partner)
    elsewhere = set[str | None]().union(*used) - {*partner["device"].unique(), HOST}
    return rows.filter(~pl.col("device").is_in(elsewhere).fill_null(None in elsewhere)) if elsewhere else rows


def function_runs(rows: pl.DataFrame) -> pl.DataFrame:
    """Run-length encoding of the functions: ``function device kind`` of each run of rows, and its ``length`` in rows.
    Sorted rows have one run per function, so that a query for functions reads a thousand rows instead of a million."""
    columns = rows.select("function", "device")
    first = np.arange(rows.height) == 0
    for column in columns:
        first |= column.ne_missing(column.shift(1)).to_numpy()
    at = np.flatnonzero(first)
    length = pl.Series("length", np.diff(np.append(at, rows.height)), dtype=pl.Int64)
    return rows.select("function", "device", "kind")[at].with_columns(length)


def _by_process(rows: pl.DataFrame) -> dict[tuple[Any, ...], pl.DataFrame]:
    """The rows of each pid; not copied if there is only one pid."""
    pids = rows["pid"].unique()
    if len(pids) == 1:
        return {(pids[0],): rows}
    return rows.partition_by("pid", as_dict=True, maintain_order=True)


def of_process(rows: pl.DataFrame, pid: int | None) -> pl.DataFrame:
    """The rows of one process (None: those without a pid); not copied if it is the only process."""
    every = rows["pid"]
    if pid is not None and len(every) and not every.null_count() and every.min() == every.max() == pid:
        return rows
    return rows.filter(pl.col("pid").is_null() if pid is None else pl.col("pid") == pid)


def _side(
    rows: pl.DataFrame, runs: pl.DataFrame, keys: pl.DataFrame, work: Work, rank: int | None
) -> tuple[RunSamples, SampleCoverage]:
    """The rows as matrices with one row per entry of ``keys``; ``runs`` is ``function_runs(rows)``."""
    every = rows.group_by("cycle").agg(pl.col("cycle_ns").first()).sort("cycle")
    cycles = every["cycle"].to_numpy()
    ms, launches = np.zeros((2, keys.height, len(cycles)))
    same = ["function", "device"]
    places = runs.join(keys.select(same).with_row_index("row"), on=same, nulls_equal=True, maintain_order="left")
    row = np.repeat(places["row"].to_numpy(), runs["length"].to_numpy())
    for begin in range(0, rows.height, _BLOCK):
        block = rows.select("cycle", "dur_ns", "instances")[begin : begin + _BLOCK].with_columns(
            row=pl.Series(row[begin : begin + _BLOCK])
        )
        if block["cycle"].null_count():
            block = block.drop_nulls("cycle")
        at = block["row"].to_numpy(), np.searchsorted(cycles, block["cycle"].to_numpy())
        np.add.at(ms, at, block["dur_ns"].to_numpy() / 1e6)
        np.add.at(launches, at, block["instances"].fill_null(1).to_numpy())
    device = (keys["device"] != HOST).fill_null(True).to_numpy()
    whole = ~np.isin(cycles, list(work.incomplete))
    names = keys["function"].cast(pl.String)
    calls = np.array([bool(_DEVICE_API.match(name or "")) for name in names], dtype=bool) & ~device
    lost = (device[:, None] | (calls[:, None] & (launches == 0))) & ~whole[None, :]
    ms[lost] = np.nan
    launches[lost] = np.nan
    steps = {number: ns for (of, number), ns in work.steps.items() if rank is None or of == rank}
    lengths = [steps.get(number, ns) for number, ns in every.select("cycle", "cycle_ns").rows()]
    timed = whole | np.array([work.marked and number in steps for number in cycles.tolist()], dtype=bool)
    side = RunSamples(cycles, np.array(lengths, dtype=np.float64) / 1e6, whole, ms, launches, timed)
    return side, SampleCoverage(every.height, int((~whole).sum()))
