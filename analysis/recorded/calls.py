"""Host calls by name: the CUDA or HIP API, the driver below it, the libraries of the operating system.

``sync_ns`` is what waiting for a device took: the whole time of calls that return when the device is done, by the same
rule that idle time goes by, and of asynchronous copies that were not: from or to pageable memory, and over when the
call returned. Calls inside calls count in both; ``self_ns`` counts every nanosecond of a thread once.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.call_tree import Mask
from ..core.callers import Callers, HostSlices, callers_of, host_column, slices_of, threads_of
from ..core.launch_calls import CALLS
from ..core.quantiles import Codes, codes, combined, dense, latencies
from ..idle.causes import always_waits, blocking, cause_of_call
from .copies import memory

CALL_KINDS = (*CALLS, "sched", "io")
"""Kinds of host slices that are calls somebody made; ``sched`` and ``io`` are of the operating system's libraries."""
_SCHEDULED = ("on CPU", "oncpu", "runq")
"""Slices of kind ``sched`` that are the scheduler's, and no calls."""
_LAUNCHES = re.compile(r"Launch")
"""What tells a launch where the recording does not tie calls to what they launched."""
_VERSION = re.compile(r"_v\d{4,5}$")
_PURPOSE = {"sync": "wait", "allocation": "allocate", "copy": "copy", "runtime": "other"}


def function(name: str) -> str:
    """The function behind a recorded name: Nsight Systems adds the version of its interface (cudaMalloc_v3020)."""
    return _VERSION.sub("", name)


def calls_of(run: Trace) -> pl.DataFrame | None:
    """A row per name and kind, most time first; None where no call was recorded. A report of sums has its own."""
    if not run.has("host") and run.has("host_stats"):
        return _from_sums(run)
    slices = slices_of(run)
    is_call = slices.named(lambda name: name not in _SCHEDULED, slices.of_kind(*CALL_KINDS))
    if not is_call.any():
        return None
    thread = threads_of(run)[is_call]
    name, kind = (column.at(is_call) for column in (slices.name, slices.kind))
    name = _functions(name)
    of, first = dense(combined([codes(name), codes(kind)]))
    count = len(first)
    dur = np.maximum(slices.dur[is_call], 0)
    stats = latencies(of, dur, count)
    callers = callers_of(run)
    waits = (blocking(slices) | _staged(run, slices, callers))[is_call]
    known = host_column(run, "self_ns").filter(pl.Series(is_call))
    own = np.bincount(of, weights=known.fill_null(0).to_numpy(), minlength=count).astype(np.int64)
    told = np.bincount(of, weights=known.is_not_null().to_numpy(), minlength=count) > 0
    threads = np.bincount(of[dense(combined([of, thread]))[1]], minlength=count)
    frame = pl.DataFrame({
        "name": name.gather(pl.Series(first)), "kind": kind.gather(pl.Series(first)), "count": stats.counts,
        "total_ns": stats.totals, "self_ns": pl.Series(own).set(pl.Series(~told), None),
        "sync_ns": np.bincount(of, weights=np.where(waits, dur, 0), minlength=count).astype(np.int64),
        "mean_ns": stats.totals / stats.counts, "p50_ns": stats.percentile(50), "p99_ns": stats.percentile(99),
        "max_ns": stats.longest, "launches": _launches(run, callers, is_call, of, count), "threads": threads,
        "trend": pl.Series(stats.histograms()).arr.to_list(),
    })
    return _ordered(frame)


def _from_sums(run: Trace) -> pl.DataFrame | None:
    """The same of recorded sums: what was waited for is known of calls that always wait, the rest is null."""
    frame = run.host_stats.filter(pl.col("kind").is_in(CALL_KINDS)).select(
        "name", "kind", "count", "total_ns", "mean_ns", "p50_ns", "max_ns").collect()
    if frame.is_empty():
        return None
    waiting = [name for name in frame["name"].cast(pl.String) if always_waits(name)]
    waits = pl.col("name").is_in(pl.Series(waiting, dtype=NAME).implode()) & pl.col("kind").is_in(CALLS)
    nothing = pl.lit(None, pl.Int64)
    return _ordered(frame.with_columns(
        sync_ns=pl.when(waits).then("total_ns").otherwise(0), self_ns=nothing, p99_ns=nothing, launches=nothing,
        threads=nothing, trend=pl.lit(None, pl.List(pl.Int64)),
    ))


def _ordered(frame: pl.DataFrame) -> pl.DataFrame:
    """Most time first, with what each call is for."""
    frame = frame.with_columns(
        purpose=pl.struct(pl.col("name").cast(pl.String), pl.col("kind").cast(pl.String), "launches").map_elements(
            lambda row: _purpose(row["name"], row["kind"], row["launches"]), return_dtype=pl.String)
    )
    texts = [pl.col(one).cast(pl.String) for one in ("name", "kind")]
    return frame.sort(pl.col("total_ns"), *texts, descending=[True, False, False], nulls_last=True)


def _functions(names: pl.Series) -> pl.Series:
    """The function of each recorded name."""
    distinct = names.unique().cast(pl.String)
    plain = {text: function(text) for text in distinct if function(text) != text}
    return names.cast(pl.String).replace(plain).cast(NAME) if plain else names


def _staged(run: Trace, slices: HostSlices, callers: Callers | None) -> Mask:
    """Asynchronous copies of pageable memory that were over when their call returned: the host waited for them."""
    found = np.zeros(len(slices.start), dtype=bool)
    if callers is None:
        return found
    rows = run.kernels.select("name", "kind", "start_ns", "dur_ns").collect(engine="streaming")
    pageable = [name for name in rows["name"].unique().cast(pl.String).drop_nulls() if memory(name) == "pageable"]
    if not pageable:
        return found
    mine = (rows["kind"] == "memcpy") & rows["name"].is_in(pl.Series(pageable, dtype=NAME).implode())
    chosen = np.flatnonzero(mine.fill_null(False).to_numpy() & (callers.call >= 0))
    call = callers.call[chosen]
    ends = (rows["start_ns"] + rows["dur_ns"]).fill_null(np.iinfo(np.int64).max).to_numpy()[chosen]
    found[call[ends <= slices.start[call] + slices.dur[call]]] = True
    return found & slices.named(lambda name: cause_of_call(name) == "copy", slices.of_kind(*CALLS))


def _launches(run: Trace, callers: Callers | None, is_call: Mask, of: Codes, count: int) -> pl.Series:
    """How many activities the calls of each row launched; null where the recording ties none to a call."""
    if callers is None or not (callers.call >= 0).any():
        return pl.Series([None] * count, dtype=pl.Int64)
    number = np.cumsum(is_call) - 1
    waits = run.kernels.select((pl.col("kind") == "sync").fill_null(False)).collect(engine="streaming").to_series()
    call = callers.call[(callers.call >= 0) & ~waits.to_numpy()]
    return pl.Series(np.bincount(of[number[call]], minlength=count).astype(np.int64))


def _purpose(name: str, kind: str, launches: int | None) -> str:
    """What a call of that name is for, in a word."""
    if kind not in CALLS:
        return "system"
    cause = cause_of_call(name)
    launching = launches if launches is not None else _LAUNCHES.search(name) is not None
    return "launch" if cause == "runtime" and launching else _PURPOSE[cause]
