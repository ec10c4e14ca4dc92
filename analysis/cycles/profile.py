"""β and μ from raw events: the share of each cycle that a function took, and the counter values while it ran.

The result is the table ``profile``, in the form that recorded cycle profiles bring along. μ of a function in a cycle is
the mean of the metric over the function's events, weighted by their durations; σ is pooled with the same weights. The
function's kind and the metric's name decide which metrics belong to which function.

The value of a counter during an event is the mean of its samples; with fewer than three, of the interpolated values at
both ends. Beyond its first and last sample it is held for one sampling interval, then unknown. A million events take
a fraction of a second per counter: a binary search each, and prefix sums, good to a billionth of the squared range.

Events are summed by cycle and function in blocks: grouping a million at once takes five times their own memory. The
sums of a block are small, and the groups are the same, in order of first appearance, however events are split.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders import schema
from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..contract.options import Options
from ..core.batches import ids, numbered
from . import assignment
from .detection import Cycles, find_cycles

Integers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Rows = np.ndarray[Any, np.dtype[np.uint32]]
KEYS = ["cycle", "pid", "function", "kind", "device"]
_ON_CPU = ("op", "runtime", "driver", "sched", "dataloader")
"""Host functions whose time is a thread's time on (or waiting for) a CPU. Python frames repeat what they call."""
_PEER = re.compile(r"dtod|d2d|ptop|p2p|peer|device ?(to|->) ?device", re.IGNORECASE)
_METRIC_GROUPS = (
    ("disk", re.compile(r"disk|iops", re.IGNORECASE)),
    ("pcie", re.compile(r"pcie", re.IGNORECASE)),
    ("link", re.compile(r"link|xgmi", re.IGNORECASE)),
    ("network", re.compile(r"^net|network|rdma|infiniband|[rt]x_rate", re.IGNORECASE)),
)


def metric_group(metric: str) -> str:
    """'disk', 'pcie', 'link' or 'network' by the metric's name; else 'load': how hard or fast a component works."""
    return next((group for group, pattern in _METRIC_GROUPS if pattern.search(metric)), "load")


def belongs(kind: str, function: str, group: str, on_device: bool) -> bool:
    """Whether metrics of that group, sampled on a device or on the host, apply to functions of that kind."""
    if kind in ("kernel", "memset"):
        return on_device and group == "load"
    if kind == "collective":
        return group == "network" or (on_device and group != "disk")
    if kind == "memcpy":
        return on_device and group == ("link" if _PEER.search(function) else "pcie")
    if kind == "io":
        return group == "disk"
    return kind in _ON_CPU and not on_device and group == "load"


def profile(run: Trace, options: Options) -> pl.LazyFrame:
    """The table ``profile`` of a run: the recorded one, else computed; empty where the run has no cycles. Warm-up
    cycles are left out where the options say so."""
    if run.has("profile"):
        return _steady(run.profile, run, options)
    frame = run.remember("profile", (options.cycle_anchor,), lambda: _computed(run, options))
    return _steady(frame.lazy(), run, options)


def device_profile(run: Trace, options: Options) -> pl.LazyFrame:
    """The rows of ``profile`` for device activities, computed without those of the host, which take most memory."""
    whole = run.has("profile") or options.cycle_anchor is not None
    frame = profile(run, options) if whole else _steady(_computed(run, options, on_host=False).lazy(), run, options)
    return frame.filter(pl.col("kind").cast(pl.String).is_in(HOST_KINDS).not_())


def _steady(frame: pl.LazyFrame, run: Trace, options: Options) -> pl.LazyFrame:
    if options.warm_up:
        return frame
    cycles = find_cycles(run, options).frame
    first = cycles.filter(pl.col("warm_up"))["cycle"].to_list()
    return frame.filter(~pl.col("cycle").is_in(first).fill_null(False))


def _computed(run: Trace, options: Options, on_host: bool = True) -> pl.DataFrame:
    if find_cycles(run, options).frame.is_empty():
        return schema.empty("profile").collect()
    shares, measured = _shares_and_metrics(run, options, on_host)
    rows = shares.join(measured, on="row", how="left", maintain_order="left").lazy()
    del shares  # as large as the answer
    return schema.conform("profile", rows).collect()


def profile_parts(run: Trace, options: Options) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """The two parts of ``profile``, both with its columns: each function of a cycle once, without metrics, and the rows
    with a metric. For a trace of 2 GB the second are 150,000 of 1.2 million, and the whole table takes 120 MB more.
    """
    if find_cycles(run, options).frame.is_empty():
        return schema.empty("profile"), schema.empty("profile")
    shares, measured = _shares_and_metrics(run, options)
    rows = measured.sort("row", maintain_order=True).join(shares, on="row", how="left", maintain_order="left")
    return schema.conform("profile", shares.lazy()), schema.conform("profile", rows.lazy())


def _shares_and_metrics(run: Trace, options: Options, on_host: bool = True) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The functions of each cycle with their ``row``, and the metrics of some of these rows."""
    result = sums(run, options, on_host, timed=_timed(run) if run.has("metrics") else None)
    # The sums with their cycle and ``beta``, in the same order
    spans = find_cycles(run, options).frame.group_by("cycle", "rank").agg(
        pl.col("dur_ns").first().alias("cycle_ns"), pl.col("start_ns").first().alias("cycle_start_ns"),
        pl.col("label").first().alias("anchor"),
    )
    joined = result.groups.join(spans, on=["cycle", "rank"], how="left", nulls_equal=True, maintain_order="left")
    share = pl.col("dur_ns") / pl.col("cycle_ns") * 100
    shares = joined.with_columns(pl.when(pl.col("cycle_ns") > 0).then(share).alias("beta")).with_row_index("row")
    # ``row metric mu sigma interpolated`` for every row of ``shares`` that a sampled metric belongs to
    columns = ["metric", "device", "pid", "rank"]
    samples = run.metrics.select("ts_ns", "value", "unit", *columns).drop_nulls(["ts_ns", "value", "metric"])
    groups = samples.sort("ts_ns").collect().group_by(columns, maintain_order=True)
    names = shares.select(*KEYS[1:], "rank", "row")
    pieces = []
    for key, group in groups:
        chosen = np.flatnonzero(_rows_of_counter(key, names)[result.row])
        if len(chosen):
            pieces.append(_of_metric(str(key[0]), group, shares.height, result, chosen))
    empty = {"row": pl.UInt32(), "metric": schema.NAME, "mu": pl.Float64(), "sigma": pl.Float64()}
    return shares, (pl.concat(pieces) if pieces else pl.DataFrame(schema=empty | {"interpolated": pl.Boolean()}))


def _timed(run: Trace) -> Timed:
    """A test for whether some counter of the run belongs to functions of a kind and name."""
    read = {
        (metric_group(metric), _is_on_device(metric, device))
        for metric, device in run.metrics.select(pl.col("metric", "device").cast(pl.String)).unique().drop_nulls(
            "metric").collect(engine="streaming").rows()
    }
    return cache(lambda kind, function: any(belongs(kind, function, *where) for where in read))


def _is_on_device(metric: str, device: str | None) -> bool:
    return device != "Host" if device is not None else "gpu" in metric.lower()


def _rows_of_counter(key: tuple[Any, ...], names: pl.DataFrame) -> Flags:
    """Which rows of ``shares`` the counter ``(metric, device, pid, rank)`` belongs to."""
    metric, device, pid, rank = key
    on_device, group = _is_on_device(metric, device), metric_group(metric)
    kinds = names.select("kind", "function").unique()
    own = [
        belongs(kind, function, group, on_device)
        for kind, function in kinds.with_columns(pl.all().cast(pl.String)).rows()
    ]
    condition = pl.lit(True)
    if on_device and device is not None:
        condition = condition & (pl.col("device") == device)
    if pid is not None:
        condition = condition & (pl.col("pid").is_null() | (pl.col("pid") == pid))
    if rank is not None:
        condition = condition & (pl.col("rank").is_null() | (pl.col("rank") == rank))
    fitting = kinds.filter(pl.Series(own, dtype=pl.Boolean))
    rows = names.filter(condition).join(fitting, on=["kind", "function"], how="semi")["row"]
    flags: Flags = np.zeros(names.height, dtype=bool)
    flags[rows.to_numpy()] = True
    return flags


def _of_metric(metric: str, samples: pl.DataFrame, height: int, sums: Sums, chosen: Integers) -> pl.DataFrame:
    """μ and σ of one counter per row, from the ``chosen`` events of those rows."""
    base = float(samples["value"][0])  # keeps the mean of a constant counter exact
    moments, values = samples["ts_ns"].to_numpy(), samples["value"].to_numpy()
    total, mean, variance, guessed = (np.zeros(height) for _ in range(4))
    for begin in range(0, len(chosen), BLOCK):
        some = chosen[begin : begin + BLOCK]
        starts, spans = sums.starts[some], sums.spans[some]
        read = during(moments, values, starts, starts + spans)
        measured = ~np.isnan(read.mean)
        row, weight = sums.row[some][measured], np.maximum(spans[measured], 1).astype(np.float64)
        _add(total, row, weight)
        _add(mean, row, (read.mean[measured] - base) * weight)
        _add(variance, row, read.variance[measured] * weight)
        _add(guessed, row, read.interpolated[measured].astype(np.float64))
    there = total > 0
    # the reference's scale: a percentage stays, everything else is a hundred times its unit
    scale = 1.0 if samples["unit"][0] == "%" else 100.0
    return pl.DataFrame({
        "row": np.flatnonzero(there).astype(np.uint32),
        "mu": (mean[there] / total[there] + base) * scale,
        "sigma": np.sqrt(variance[there] / total[there]) * scale,
        "interpolated": guessed[there] > 0,
    }).select("row", pl.lit(metric).cast(schema.NAME).alias("metric"), "mu", "sigma", "interpolated")


def _add(to: Floats, row: Rows, values: Floats) -> None:
    """Add each value to its row, one after the other, so that the result does not depend on where a block ends."""
    np.add.at(to, row, values)


ENOUGH = 3  # Samples inside an interval from which their mean is its value.


class During(NamedTuple):
    """Per interval, mean and variance of the counter (NaN where unknown), and whether these were interpolated."""

    mean: Floats
    variance: Floats
    interpolated: Flags


def during(times: Integers, values: Floats, starts: Integers, ends: Integers) -> During:
    """The counter (samples ``values`` at sorted ``times``) during each interval, both ends included."""
    first = np.searchsorted(times, starts, side="left")
    last = np.searchsorted(times, ends, side="right")
    count = last - first
    centre = float(values[0])  # an offset that keeps the sums small, and a constant counter exact
    sums, squares = (np.concatenate(([0.0], np.cumsum((values - centre) ** power))) for power in (1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        inside = (sums[last] - sums[first]) / count
        spread = np.maximum((squares[last] - squares[first]) / count - inside**2, 0.0)
    at_start, at_end = _at(times, values, starts), _at(times, values, ends)
    at_start = np.where(np.isnan(at_start), at_end, at_start)
    at_end = np.where(np.isnan(at_end), at_start, at_end)
    few = count < ENOUGH
    mean = np.where(few, (at_start + at_end) / 2, inside + centre)
    return During(mean, np.where(few, ((at_end - at_start) / 2) ** 2, spread), few)


def _at(times: Integers, values: Floats, moments: Integers) -> Floats:
    hold = int(np.median(np.diff(times))) if len(times) > 1 else 0
    # relative to the first sample: absolute nanoseconds do not fit the 53 bits np.interp computes with
    read: Floats = np.interp(moments - times[0], times - times[0], values)
    return np.where((moments < times[0] - hold) | (moments > times[-1] + hold), np.nan, read)


GROUPS = ["cycle", "pid", "function", "kind", "device", "rank"]
HOST_KINDS = ("op", "runtime", "driver", "python", "sched", "io", "dataloader", "overhead")
BLOCK = 1 << 18  # Events that are grouped at once.
Timed = Callable[[str, str], bool]  # Whether the event times of functions of a kind and name are needed.
_EVENTS: dict[str, pl.DataType] = {
    "cycle": pl.Int64(), "pid": pl.Int64(), "function": schema.NAME, "kind": schema.NAME, "device": schema.NAME,
    "rank": pl.Int64(), "start_ns": pl.Int64(), "dur_ns": pl.Int64(),
}
_BUSY = pl.col("kind").is_in(HOST_KINDS)
_COLUMNS = ("cycle", "pid", pl.col("name").alias("function"), "kind", "device")


class Sums(Struct, frozen=True):
    """``groups``: ``GROUPS dur_ns instances``, one row per group in order of first appearance. For the events whose
    times are needed, ``row`` is the event's group, ``starts`` and ``spans`` (ns) its start and duration."""

    groups: pl.DataFrame
    row: Rows
    starts: Integers
    spans: Integers


class _Part(Struct, frozen=True):
    """The sums of one block, and for its timed events the row of their group, ``start_ns`` and ``dur_ns``."""

    groups: pl.DataFrame
    events: tuple[Rows, Integers, Integers] | None


def sums(run: Trace, options: Options, on_host: bool = True, timed: Timed | None = None) -> Sums:
    """The time and instances of the run's functions in each of its cycles. ``on_host`` False leaves out host slices;
    ``timed`` selects the functions whose event times are needed."""
    cycles = find_cycles(run, options)
    none = _part(pl.DataFrame(schema=_EVENTS), timed)
    device = [none, *_parts(_activities(run, cycles), timed)]
    host = _parts(_slices(run, cycles), timed) if on_host else []
    if on_host:
        pids = pl.concat([none.groups["pid"], *(part.groups["pid"] for part in host)])
    else:
        pids = run.host.filter(_inside(cycles)).select(pl.col("pid").unique()).collect(engine="streaming")["pid"]
    processes = pids.drop_nulls().unique()
    if len(processes) == 1:  # device activities without a process belong to the only one there is
        own = pl.col("pid").fill_null(processes[0])
        device = [_Part(part.groups.with_columns(own), part.events) for part in device]
    return _together([*device, *host])


def _activities(run: Trace, cycles: Cycles) -> Iterator[pl.DataFrame]:
    """The device activities in cycles, in blocks."""
    for block in assignment.activities_in_cycles(run, cycles.frame, cycles.device_time, is_work()):
        yield block.select(*_COLUMNS, _rank(cycles), "start_ns", "dur_ns")


def _slices(run: Trace, cycles: Cycles) -> Iterator[pl.DataFrame]:
    """The host slices that begin in a cycle and are not the cycles' anchor, in blocks."""
    device = pl.lit("Host").cast(schema.NAME).alias("device")
    for block in assignment.host_in_cycles(run, cycles.frame, _inside(cycles)):
        yield block.with_columns(device).select(*_COLUMNS, _rank(cycles), "start_ns", "dur_ns")


def _inside(cycles: Cycles) -> pl.Expr:
    anchors = cycles.frame["label"].unique().cast(pl.String).drop_nulls().to_list()
    return _BUSY & ~pl.col("name").is_in(pl.Series(anchors, dtype=schema.NAME).implode())


def _rank(cycles: Cycles) -> pl.Expr:
    """The rank to group by: ranks have the same cycle numbers; null if cycles have no rank and so cover all ranks."""
    ranks = cycles.frame["rank"].drop_nulls()
    return pl.col("rank").fill_null(ranks[0]) if len(ranks) else pl.lit(None, pl.Int64).alias("rank")


def _parts(blocks: Iterable[pl.DataFrame], timed: Timed | None) -> list[_Part]:
    return [_part(some, timed) for block in blocks for some in block.iter_slices(BLOCK)]


def _part(block: pl.DataFrame, timed: Timed | None) -> _Part:
    groups, row = _grouped(block.with_columns(pl.lit(1, pl.Int64).alias("instances")))
    if timed is None:
        return _Part(groups, None)
    there = block["start_ns"].is_not_null() & pl.Series(_timed_groups(groups, timed)[row])
    rows = block.select("start_ns", "dur_ns").filter(there)
    return _Part(groups, (row[there.to_numpy()], rows["start_ns"].to_numpy(), rows["dur_ns"].to_numpy()))


def _timed_groups(groups: pl.DataFrame, timed: Timed) -> Flags:
    """The groups whose event times are needed: most events are on the host, but most counters on devices."""
    names = groups.select("kind", "function")
    kinds = names.unique()
    wanted = [timed(*pair) for pair in kinds.with_columns(pl.all().cast(pl.String)).rows()]
    rows = names.with_row_index("row").join(
        kinds.filter(pl.Series(wanted, dtype=pl.Boolean)), on=["kind", "function"], how="semi", nulls_equal=True
    )["row"]
    flags: Flags = np.zeros(groups.height, dtype=bool)
    flags[rows.to_numpy()] = True
    return flags


def _together(parts: list[_Part]) -> Sums:
    begins = np.cumsum([0, *(part.groups.height for part in parts)])
    groups, place = _grouped(pl.concat([part.groups for part in parts]))
    timed = [(begin, part.events) for begin, part in zip(begins, parts, strict=False) if part.events is not None]
    if not timed:
        return Sums(groups, np.empty(0, np.uint32), *[np.empty(0, np.int64)] * 2)
    row = [place[begin:][events[0]] for begin, events in timed]
    starts, spans = (np.concatenate([events[column] for _, events in timed]) for column in (1, 2))
    return Sums(groups, np.concatenate(row), starts, spans)


def _grouped(rows: pl.DataFrame) -> tuple[pl.DataFrame, Rows]:
    """``GROUPS dur_ns instances`` in order of first appearance, and the group of each row. Keys are numbered here,
    because a polars group_by that returns the rows of its groups takes 350 MB for a million rows."""
    number = numbered(*(ids(rows[name].to_physical().cast(pl.Int64)) for name in GROUPS))
    count = int(number.max(initial=-1)) + 1
    first = np.empty(count, np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]  # in reverse, so that a group's first row is written last
    order = np.argsort(first)
    place = np.empty(count, np.uint32)
    place[order] = np.arange(count, dtype=np.uint32)
    row: Rows = place[number]
    groups = rows.select(GROUPS)[first[order]]
    for name in ("dur_ns", "instances"):
        total = np.zeros(count, np.int64)
        np.add.at(total, row, rows[name].fill_null(0).to_numpy())
        if rows[name].null_count():  # nothing of a group without a value is known
            known = np.bincount(row, weights=rows[name].is_not_null().to_numpy(), minlength=count)
            groups = groups.with_columns(pl.Series(name, total).set(pl.Series(known == 0), None))
            continue
        groups = groups.with_columns(pl.Series(name, total))
    return groups, row
