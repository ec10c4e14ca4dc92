"""Host calls: time in the CUDA or HIP API, the driver and the operating system, and how much of it waits for a device.

``sync_ns`` is time spent waiting for a device: the full duration of synchronising calls (by the same rule as in the
idle view) and of blocking asynchronous copies, i.e. from or to pageable memory and complete when the call returned.
Nested calls count in both totals; ``self_ns`` counts every nanosecond of a thread once.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..contract.column import Column, pair_columns
from ..contract.options import Options, Side
from ..contract.sections import Section
from ..contract.view import CannotAnswer, Runs, View
from ..core import units
from ..core.batches import ABSENT, CALLS, SCHEDULED, TextColumn, integer_arrays, numbered
from ..core.call_tree import Ints, Mask, nearest, slices_of
from ..core.callers import Callers, callers_of
from ..core.quantiles import Codes, codes, combined, dense, duration_columns, timeless_note
from ..core.text import display
from ..cycles.paired import OneRun, answered_by
from ..details.event_arguments import longest_calls
from ..details.listed import Row, row_section, sides, span, sums_by, text
from ..idle.blocking_copies import blocking_copies
from ..idle.causes import always_waits, cause_of_call, function, functions
from .ranges import RANGE_KINDS

COLUMNS = (
    Column("name", "call", "text", "function, without the API version that Nsight Systems appends", width=34, order=0,
           elastic=True, pinned=True, role="label", pairs="key"),
    Column("kind", "layer", "text", "runtime (CUDA or HIP API and libraries), driver, io or sched (operating system)",
           width=8, order=4, role="where", pairs="key"),
    Column("purpose", "for", "text", "launch, wait, copy, allocate, system or other, from its name and what it "
           "launched", width=9, order=3),
    Column("count", "count", "count", "calls", width=8, order=2, role="count", pairs="sum"),
    Column("total_ns", "total", "ns", "summed duration", width=10, order=0, role="time", pairs="sum"),
    Column("self_ns", "self", "ns", "time outside nested calls (empty where nesting is unknown)", width=10, order=4,
           pairs="sum"),
    Column("sync_ns", "waiting", "ns", "time waiting for a device (synchronising calls, and copies of pageable memory)",
           width=10, order=1, pairs="sum"),
    Column("mean_ns", "mean", "ns", "mean duration", width=9, order=7, pairs="single"),
    Column("p50_ns", "p50", "ns", "median duration (nearest rank)", width=9, order=3, pairs="single"),
    Column("p99_ns", "p99", "ns", "99th percentile (nearest rank)", width=9, order=4, pairs="single"),
    Column("max_ns", "max", "ns", "longest call", width=9, order=5, pairs="single"),
    Column("trend", "duration", "trend", "histogram of durations, log axis from shortest to longest", width=12,
           order=6, pairs="single"),
    Column("launches", "launches", "count", "device activities it launched (empty where not recorded)", width=8,
           order=6, pairs="sum"),
    Column("threads", "threads", "count", "threads that called it", width=7, order=8),
)


def table(run: Trace, options: Options, side: Side) -> OneRun:
    """The calls of one run and their totals. Raises CannotAnswer."""
    frame = calls_of(run)
    if frame is None:
        unread = "".join(f"; {table}" for table in run.unread(*_OF_CALLS))
        raise CannotAnswer(
            f"{run.info.label} holds no calls of the host to the CUDA or HIP API or to the system{unread}.")
    count = int(frame["count"].sum())
    facts = {"functions": frame.height, "count": count,
             **{name: int(frame[name].sum()) if frame[name].count() else None for name in ("total_ns", "sync_ns")}}
    notes = timeless_note(int(frame["timeless"].sum()), count, "call", "calls") + run.unread(*_OF_CALLS)
    return OneRun(frame.select(column.name for column in COLUMNS), facts, notes=notes, sums=(_sentence(facts),))


def _sentence(facts: dict[str, Any]) -> str:
    return (
        f"{units.counted(facts['count'], 'call', 'calls')} of "
        f"{units.counted(facts['functions'], 'function', 'functions')} · "
        + ("durations not recorded" if facts["total_ns"] is None else
           f"{units.duration(facts['total_ns'])} on all threads")
        + ("" if facts["sync_ns"] is None else f" · {units.duration(facts['sync_ns'])} waiting for a device")
    )



_OF_CALLS = ("OPENACC", "OPENMP", "OMPT", "MPI", "UCX", "OSRT", "SYSCALL")
CALL_KINDS = (*CALLS, "sched", "io", "mpi", "openmp", "openacc")
"""Host-slice kinds that are API calls; ``sched`` and ``io`` are calls into the operating system's libraries."""
_LAUNCHES = re.compile(r"Launch")  # Identifies launch calls for which no activity is recorded.
_PURPOSE = {"sync": "wait", "allocation": "allocate", "copy": "copy", "runtime": "other"}


class _Calls(Struct, frozen=True):
    """Calls in recorded order: ``row`` of the host table; duration and self time in ns (``ABSENT``: none);
    ``thread``, a number per thread; ``waits``, whether the call returns only when the device is done."""

    row: Ints
    name: pl.Series
    kind: pl.Series
    dur: Ints
    own: Ints
    thread: Ints
    waits: Mask


def calls_of(run: Trace) -> pl.DataFrame | None:
    """One row per name and kind, longest total first; None without calls. Reads ``host_stats`` if only sums exist."""
    if not run.has("host") and run.has("host_stats"):
        return _from_sums(run)
    calls = _recorded(run)
    if not len(calls.row):
        return None
    callers = callers_of(run)
    waits = calls.waits | np.isin(calls.row, blocking_copies(run)["row"].to_numpy())
    name, kind = functions(calls.name), calls.kind
    of, first = dense(combined([codes(name), codes(kind)]))
    count = len(first)
    dur = np.maximum(calls.dur, 0)
    nested = calls.own != ABSENT
    own = np.bincount(of, weights=np.where(nested, calls.own, 0), minlength=count).astype(np.int64)
    has_own = np.bincount(of, weights=nested, minlength=count) > 0
    threads = np.bincount(of[dense(combined([of, calls.thread]))[1]], minlength=count)
    frame = pl.DataFrame({
        "name": name.gather(pl.Series(first)), "kind": kind.gather(pl.Series(first)),
        **duration_columns(of, np.where(calls.dur == ABSENT, -1, dur), count),
        "self_ns": pl.Series(own).set(pl.Series(~has_own), None),
        "sync_ns": np.bincount(of, weights=np.where(waits, dur, 0), minlength=count).astype(np.int64),
        "launches": _launches(run, callers, calls.row, of, count), "threads": threads,
    })
    unknown = pl.col("total_ns").is_null()  # no call of it has a time
    return _ordered(frame.with_columns(pl.when(~unknown).then(pl.col("self_ns", "sync_ns"))))


def _recorded(run: Trace) -> _Calls:
    is_scheduled = pl.col("name").is_in(pl.Series(SCHEDULED, dtype=NAME).implode())
    rows = run.host.with_row_index("row").filter(
        pl.col("kind").is_in(CALL_KINDS), pl.col("name").is_not_null(), ~is_scheduled)
    result = integer_arrays(
        rows.select("row", "dur_ns", "self_ns", "rank", "pid", "tid"), "row", "rank", "pid", "tid", "self_ns")
    texts = rows.select("name", "kind").collect(engine="streaming")
    of_api, named = texts["kind"].is_in(CALLS).to_numpy(), TextColumn.of(texts["name"])
    return _Calls(
        result["row"], texts["name"], texts["kind"], result["dur_ns"], result["self_ns"],
        numbered(*(result[key] for key in ("rank", "pid", "tid"))), named.where(always_waits) & of_api,
    )


def _from_sums(run: Trace) -> pl.DataFrame | None:
    """The same from recorded sums: ``sync_ns`` covers only calls that always wait; columns sums lack are null."""
    frame = run.host_stats.filter(pl.col("kind").is_in(CALL_KINDS)).select(
        "name", "kind", "count", "total_ns", "mean_ns", "p50_ns", "max_ns").collect()
    if frame.is_empty():
        return None
    waiting = [name for name in frame["name"].cast(pl.String) if always_waits(name)]
    waits = pl.col("name").is_in(pl.Series(waiting, dtype=NAME).implode()) & pl.col("kind").is_in(CALLS)
    nothing = pl.lit(None, pl.Int64)
    return _ordered(frame.with_columns(
        timeless=nothing,
        sync_ns=pl.when(waits).then("total_ns").otherwise(0), self_ns=nothing, p99_ns=nothing, launches=nothing,
        threads=nothing, trend=pl.lit(None, pl.List(pl.Int64)),
    ))


def _ordered(frame: pl.DataFrame) -> pl.DataFrame:
    """Longest total first, with the ``purpose`` column."""
    frame = frame.with_columns(
        purpose=pl.struct(pl.col("name").cast(pl.String), pl.col("kind").cast(pl.String), "launches").map_elements(
            lambda row: _purpose(row["name"], row["kind"], row["launches"]), return_dtype=pl.String)
    )
    texts = [pl.col(one).cast(pl.String) for one in ("name", "kind")]
    return frame.sort(pl.col("total_ns"), *texts, descending=[True, False, False], nulls_last=True)


def _places(rows: Ints, wanted: Ints) -> Ints:
    """Index of each wanted row in ``rows`` (sorted); where it is not in there, the index of the row before it."""
    places: Ints = np.searchsorted(rows, wanted, side="right") - 1
    return places


def _launches(run: Trace, callers: Callers | None, rows: Ints, of: Codes, count: int) -> pl.Series:
    """Number of activities launched by the calls of each row; null where no activity is correlated with a call."""
    if callers is None or not (callers.call >= 0).any():
        return pl.Series([None] * count, dtype=pl.Int64)
    waits = run.kernels.select((pl.col("kind") == "sync").fill_null(False)).collect(engine="streaming").to_series()
    call = callers.call[(callers.call >= 0) & ~waits.to_numpy()]
    return pl.Series(np.bincount(of[_places(rows, call)], minlength=count).astype(np.int64))


def _purpose(name: str, kind: str, launches: int | None) -> str:
    """Purpose of a call by its name: launch, wait, copy, allocate, system or other."""
    if kind not in CALLS:
        return "system"
    cause = cause_of_call(name)
    return "launch" if cause == "runtime" and (launches or _LAUNCHES.search(name)) else _PURPOSE[cause]


def sections(row: Row, runs: Runs, options: Options) -> list[Section]:
    """The operators and ranges that made the call, its call chains, and the longest calls."""
    result: list[Section] = []
    for number, run, tail in sides(runs, options):
        result += _called_from(run, str(row["name"]), str(row["kind"]), tail)
        result += _call_chains(run, str(row["name"]), tail)
        names = run.host.select(pl.col("name").unique().cast(pl.String)).collect(engine="streaming")["name"]
        also = tuple(name for name in names.drop_nulls() if function(name) == row["name"] != name)
        result += longest_calls(run, str(row["name"]), number, tail, CALL_KINDS, also)
    return result


_LIBRARY = r"\((libc|libpthread|libToolsInjection)[^)]*\)$|^\[(libc|libpthread|libToolsInjection)[.\d-]"
"""Frames of system libraries and of the profiler: they are on every stack and say nothing about the caller."""


def _call_chains(run: Trace, name: str, tail: str) -> list[Section]:
    """Callers of an operating-system call: the first three frames outside its libraries, longest total first."""
    if not run.has("call_chains.call"):
        return []
    frames = pl.col("stack").cast(pl.String).str.split("\n")
    outside = frames.list.eval(pl.element().filter(~pl.element().str.contains(_LIBRARY))).list.head(3)
    rows = run.call_chains.filter(pl.col("call").cast(pl.String) == name).select(
        outside.list.join(" < ").alias("from"), "dur_ns").collect(engine="streaming")
    return row_section(f"Call chains{tail}, of {units.count(rows.height)} recorded with one", sums_by(rows, "from"), (
        lambda chain: display(chain, 100) if chain else "the library's own threads", units.count, span),
        ("called from, innermost first", "calls", "total"))


def _called_from(run: Trace, name: str, kind: str, tail: str) -> list[Section]:
    """The innermost operator or range around each call of the function, longest total first."""
    slices = slices_of(run)
    rows = np.flatnonzero(slices.named(lambda text: function(text) == name, slices.of_kind(kind)))
    if not len(rows):
        return []
    around = nearest(slices.parent, rows, slices.of_kind("op", *RANGE_KINDS))
    frame = pl.DataFrame({"name": slices.names_of(around), 
                          "dur_ns": run.host.select(pl.col("dur_ns").gather(rows)).collect().to_series()})
    return row_section(f"Called from{tail}", sums_by(frame, "name"),
                  (lambda caller: "nothing recorded around it" if caller is None else text(caller), units.count, span),
                  ("operator or range", "calls", "total"))


VIEW = View("calls", COLUMNS, answered_by(COLUMNS, table), pair_columns(COLUMNS), noun="calls", details=sections)
