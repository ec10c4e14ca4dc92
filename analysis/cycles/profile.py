"""β and μ from raw events: how much of each cycle a function took, and what the resources read while it ran.

The result is the table ``profile``, the same a cycle profile recorded elsewhere brings along. μ of a function in a
cycle is the mean over its events of the metric during each, weighted by the events' durations; σ is pooled with the
same weights. Which metrics belong to which function is decided by the function's kind and the metric's name.

During one event a counter reads the mean of its samples; with fewer than three the values interpolated at both ends.
Beyond its first and last sample it is held for one sampling interval and unknown after that. A million events cost a
fraction of a second per counter: one binary search each, and prefix sums, good to a billionth of the squared range.

Events are added up by cycle and function a block at a time: to group a million at once takes five times their own
memory. What a block adds up to is small, and all blocks give the same groups in the same order of first appearance.
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
"""Host functions whose time is a thread's time on (or waiting for) a processor. Python frames repeat what they call."""
_PEER = re.compile(r"dtod|d2d|ptop|p2p|peer|device ?(to|->) ?device", re.IGNORECASE)
_METRIC_GROUPS = (
    ("disk", re.compile(r"disk|iops", re.IGNORECASE)),
    ("pcie", re.compile(r"pcie", re.IGNORECASE)),
    ("link", re.compile(r"link|xgmi", re.IGNORECASE)),
    ("network", re.compile(r"^net|network|rdma|infiniband|[rt]x_rate", re.IGNORECASE)),
)


def metric_group(metric: str) -> str:
    """'disk', 'pcie', 'link' or 'network' by the metric's name; 'load' for what tells how hard or fast a part works."""
    return next((group for group, pattern in _METRIC_GROUPS if pattern.search(metric)), "load")


def belongs(kind: str, function: str, group: str, on_device: bool) -> bool:
    """Whether metrics of that group, read on a device or on the host, tell about functions of that kind."""
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
    """The rows of ``profile`` that are of device activities, without what takes most memory: those of the host."""
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


def computed_apart(run: Trace, options: Options) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """What ``profile`` is computed of, both with its columns: each function of a cycle once, without metrics, and the
    rows that have one. Of a trace of 2 GB the second are 150,000 of 1.2 million, and the whole table takes 120 MB more.
    """
    if find_cycles(run, options).frame.is_empty():
        return schema.empty("profile"), schema.empty("profile")
    shares, measured = _shares_and_metrics(run, options)
    rows = measured.sort("row", maintain_order=True).join(shares, on="row", how="left", maintain_order="left")
    return schema.conform("profile", shares.lazy()), schema.conform("profile", rows.lazy())


def _shares_and_metrics(run: Trace, options: Options, on_host: bool = True) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The functions of each cycle with their ``row``, and the metrics of some of these rows."""
    result = sums(run, options, on_host, timed=_timed(run) if run.has("metrics") else None)
    # The sums with the cycle they are of and ``beta``, in the same order
    spans = find_cycles(run, options).frame.group_by("cycle", "rank").agg(
        pl.col("dur_ns").first().alias("cycle_ns"), pl.col("start_ns").first().alias("cycle_start_ns"),
        pl.col("label").first().alias("anchor"),
    )
    joined = result.groups.join(spans, on=["cycle", "rank"], how="left", nulls_equal=True, maintain_order="left")
    share = pl.col("dur_ns") / pl.col("cycle_ns") * 100
    shares = joined.with_columns(pl.when(pl.col("cycle_ns") > 0).then(share).alias("beta")).with_row_index("row")
    # ``row metric mu sigma interpolated`` for every row of ``shares`` a sampled metric belongs to
    columns = ["metric", "device", "pid", "rank"]
    samples = run.metrics.select("ts_ns", "value", "unit", *columns).drop_nulls(["ts_ns", "value", "metric"])
    groups = samples.sort("ts_ns").collect().group_by(columns, maintain_order=True)
    names = shares.select(*KEYS[1:], "rank", "row")
    pieces = []
    for key, group in groups:
        chosen = np.flatnonzero(_wanted(key, names)[result.row])
        if len(chosen):
            pieces.append(_of_metric(str(key[0]), group, shares.height, result, chosen))
    empty = {"row": pl.UInt32(), "metric": schema.NAME, "mu": pl.Float64(), "sigma": pl.Float64()}
    return shares, (pl.concat(pieces) if pieces else pl.DataFrame(schema=empty | {"interpolated": pl.Boolean()}))


def _timed(run: Trace) -> Timed:
    """Whether some counter of the run tells about functions of a kind and name."""
    read = {
        (metric_group(metric), _is_on_device(metric, device))
        for metric, device in run.metrics.select(pl.col("metric", "device").cast(pl.String)).unique().drop_nulls(
            "metric").collect(engine="streaming").rows()
    }
    return cache(lambda kind, function: any(belongs(kind, function, *where) for where in read))


def _is_on_device(metric: str, device: str | None) -> bool:
    return device != "Host" if device is not None else "gpu" in metric.lower()


def _wanted(key: tuple[Any, ...], names: pl.DataFrame) -> Flags:
    """Which rows of ``shares`` the counter ``(metric, device, pid, rank)`` belongs to."""
    metric, device, pid, rank = key
    on_device, group = _is_on_device(metric, device), metric_group(metric)
    kinds = names.select("kind", "function").unique()
    mine = [
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
    fitting = kinds.filter(pl.Series(mine, dtype=pl.Boolean))
    rows = names.filter(condition).join(fitting, on=["kind", "function"], how="semi")["row"]
    flags: Flags = np.zeros(names.height, dtype=bool)
    flags[rows.to_numpy()] = True
    return flags


def _of_metric(metric: str, samples: pl.DataFrame, height: int, sums: Sums, chosen: Integers) -> pl.DataFrame:
    """μ and σ of one counter per row, from the ``chosen`` events of those rows."""
    base = float(samples["value"][0])  # a constant counter stays exactly that
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
    """Add each value to its row, one after the other: so it makes no difference where a block ends."""
    np.add.at(to, row, values)


ENOUGH = 3  # Samples inside an interval that make their mean its value.


class During(NamedTuple):
    """Per interval: mean and variance of the counter (NaN where unknown), and whether they were interpolated."""

    mean: Floats
    variance: Floats
    interpolated: Flags


def during(times: Integers, values: Floats, starts: Integers, ends: Integers) -> During:
    """The counter (samples ``values`` at ``times``, in order of time) during each interval, both ends included."""
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
Timed = Callable[[str, str], bool]  # Whether anybody asks when the functions of a kind and name ran.
_EVENTS: dict[str, pl.DataType] = {
    "cycle": pl.Int64(), "pid": pl.Int64(), "function": schema.NAME, "kind": schema.NAME, "device": schema.NAME,
    "rank": pl.Int64(), "start_ns": pl.Int64(), "dur_ns": pl.Int64(),
}
_BUSY = pl.col("kind").is_in(HOST_KINDS)
_COLUMNS = ("cycle", "pid", pl.col("name").alias("function"), "kind", "device")


class Sums(Struct, frozen=True):
    """``groups`` are ``GROUPS dur_ns instances``, a row each in the order of first appearance. ``row`` says which of
    them every event belongs to whose time was asked for, ``starts`` and ``spans`` (ns) when that was."""

    groups: pl.DataFrame
    row: Rows
    starts: Integers
    spans: Integers


class _Part(Struct, frozen=True):
    """What one block adds up to, and of its timed events the row among these, ``start_ns`` and ``dur_ns``."""

    groups: pl.DataFrame
    events: tuple[Rows, Integers, Integers] | None


def sums(run: Trace, options: Options, on_host: bool = True, timed: Timed | None = None) -> Sums:
    """What the run's functions took in each of its cycles. ``on_host`` False leaves the host slices out; ``timed``
    asks for the times of the events of some functions."""
    cycles = find_cycles(run, options)
    none = _part(pl.DataFrame(schema=_EVENTS), timed)
    device = [none, *_parts(_activities(run, cycles), timed)]
    host = _parts(_slices(run, cycles), timed) if on_host else []
    if on_host:
        pids = pl.concat([none.groups["pid"], *(part.groups["pid"] for part in host)])
    else:
        pids = run.host.filter(_inside(cycles)).select(pl.col("pid").unique()).collect(engine="streaming")["pid"]
    processes = pids.drop_nulls().unique()
    if len(processes) == 1:  # what a device did without saying for whom was for the only process there is
        own = pl.col("pid").fill_null(processes[0])
        device = [_Part(part.groups.with_columns(own), part.events) for part in device]
    return _together([*device, *host])


def _activities(run: Trace, cycles: Cycles) -> Iterator[pl.DataFrame]:
    """What devices ran in cycles, in blocks."""
    for block in assignment.activities_in_cycles(run, cycles.frame, cycles.device_time, pl.col("kind") != "sync"):
        yield block.select(*_COLUMNS, _rank(cycles), "start_ns", "dur_ns")


def _slices(run: Trace, cycles: Cycles) -> Iterator[pl.DataFrame]:
    """What the host did that began in a cycle and is not their anchor, in blocks."""
    device = pl.lit("Host").cast(schema.NAME).alias("device")
    for block in assignment.host_in_cycles(run, cycles.frame, _inside(cycles)):
        yield block.with_columns(device).select(*_COLUMNS, _rank(cycles), "start_ns", "dur_ns")


def _inside(cycles: Cycles) -> pl.Expr:
    anchors = cycles.frame["label"].unique().cast(pl.String).drop_nulls().to_list()
    return _BUSY & ~pl.col("name").is_in(pl.Series(anchors, dtype=schema.NAME).implode())


def _rank(cycles: Cycles) -> pl.Expr:
    """Ranks number their cycles alike; where cycles have no rank, they hold every rank's work."""
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
    """Of which groups the times are asked for: the host has most events, and most counters are of devices."""
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
    """``GROUPS dur_ns instances`` in the order of first appearance, and for each row which of them it belongs to. Keys
    are numbered, for a grouping of polars that tells its rows takes 350 MB for a million of them."""
    number = numbered(*(ids(rows[name].to_physical().cast(pl.Int64)) for name in GROUPS))
    count = int(number.max(initial=-1)) + 1
    first = np.empty(count, np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]  # the first of several rows is written last
    order = np.argsort(first)
    place = np.empty(count, np.uint32)
    place[order] = np.arange(count, dtype=np.uint32)
    row: Rows = place[number]
    groups = rows.select(GROUPS)[first[order]]
    for name in ("dur_ns", "instances"):
        total = np.zeros(count, np.int64)
        np.add.at(total, row, rows[name].fill_null(0).to_numpy())
        groups = groups.with_columns(pl.Series(name, total))
    return groups, row
