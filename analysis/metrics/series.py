"""Counters as arrays on run A's clock, their range in each column of a window, and their summary rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.metrics import display_unit, mean_within_range
from ..timeline.coverage import Ints
from ..timeline.lanes import Marks

Floats = npt.NDArray[np.float64]
SAMPLE = 1_000  # Distance between samples without times, in place of ns.
GAP = 8  # Samples further apart than this multiple of the usual distance are not joined by a line.


class Key(Struct, frozen=True):
    """Identifies a counter: metric, device, process and rank as in the samples table, and run (0 is A). ``pooled``
    combines the samples of all processes and ranks."""

    metric: str
    device: str | None
    unit: str
    pid: int | None = None
    rank: int | None = None
    run: int = 0
    pooled: bool = False

    @property
    def name(self) -> str:
        """Its name beside its line."""
        parts = [self.metric, self.device or ""]
        parts += [f"process {self.pid}"] if self.pid is not None else []
        parts += [f"rank {self.rank}"] if self.rank is not None else []
        return " ".join(filter(None, parts))


class Series(Struct, frozen=True):
    """The measured samples of one counter: moments in ns, or ``SAMPLE`` apart without times."""

    key: Key
    moments: Ints
    values: Floats
    timed: bool

    def near(self, moment: int) -> float | None:
        """The last value at or before that moment, else the first after it; None if there are no values."""
        if not len(self.moments):
            return None
        return float(self.values[max(0, int(np.searchsorted(self.moments, moment, side="right")) - 1)])


def series_of(run: Trace, keys: Sequence[Key], offset: int = 0) -> list[Series]:
    """The samples of those counters, read in one pass; ``offset`` (ns) is subtracted from their times."""
    if not keys:
        return []
    owners = [] if keys[0].pooled else ["pid", "rank"]
    names = list(dict.fromkeys(key.metric for key in keys))
    frame = run.metrics.filter(pl.col("metric").is_in(names), pl.col("value").is_finite()).select(
        "metric", "device", *owners, "ts_ns", "value"
    ).collect(engine="streaming")
    parts = frame.partition_by("metric", "device", *owners, as_dict=True, include_key=False)
    by_counter = {(str(metric), device and str(device), *owner): samples
                  for (metric, device, *owner), samples in parts.items()}
    none = frame.select("ts_ns", "value").clear()
    return [
        _placed(key, by_counter.get((key.metric, key.device, *(getattr(key, name) for name in owners)), none), offset)
        for key in keys
    ]


def _placed(key: Key, frame: pl.DataFrame, offset: int) -> Series:
    if frame["ts_ns"].is_null().all() and frame.height:
        return Series(key, np.arange(frame.height, dtype=np.int64) * SAMPLE, frame["value"].to_numpy(), False)
    frame = frame.drop_nulls("ts_ns").sort("ts_ns", maintain_order=True)
    return Series(key, frame["ts_ns"].to_numpy() - offset, frame["value"].to_numpy(), True)


class Envelope(Struct, frozen=True):
    """Lowest and highest value in each column of a window, including the line between samples; NaN if there is none."""

    low: Floats
    high: Floats


def envelope(series: Series, edges: Ints) -> Envelope:
    """The range of a counter per column: of all samples in the column, or of the line between two samples that crosses
    it. No line is drawn between samples more than ``GAP`` times the usual distance apart."""
    moments, values = series.moments, series.values
    columns = len(edges) - 1
    low, high = np.full(columns, np.nan), np.full(columns, np.nan)
    if not len(moments):
        return Envelope(low, high)
    at = np.searchsorted(moments, edges, side="left")
    counts = np.diff(at)
    middles = (edges[:-1] + edges[1:]) // 2
    after = np.searchsorted(moments, middles, side="right")
    between = (after > 0) & (after < len(moments))
    if len(moments) > 1:
        steps = np.diff(moments)
        usual = max(1.0, float(np.median(steps)))
        joined = between & (steps[np.clip(after - 1, 0, len(steps) - 1)] <= GAP * usual)
        line = np.interp(middles, moments, values)
        low[joined], high[joined] = line[joined], line[joined]
    inside = np.flatnonzero(counts > 0)
    if len(inside):
        starts = at[inside]
        stop = int(at[inside[-1] + 1])
        low[inside] = np.minimum.reduceat(values[:stop], starts)
        high[inside] = np.maximum.reduceat(values[:stop], starts)
    return Envelope(low, high)


def moved(marks: Marks, offset: int) -> Marks:
    """The cycles with ``offset`` (ns) subtracted from their times."""
    return Marks(marks.starts - offset, marks.ends - offset, marks.labels) if offset else marks


def offsets(runs: Sequence[Trace], marks: Sequence[Marks]) -> tuple[int, ...]:
    """Offset (ns) to subtract from each run's times to align it with run A: by first cycle, else by first sample."""
    if all(len(one.starts) for one in marks):
        first = [int(one.starts[0]) for one in marks]
    else:
        first = [int(run.metrics.select(pl.col("ts_ns").min()).collect().item() or 0) for run in runs]
    return tuple(moment - first[0] for moment in first)


KEYS = ("metric", "device", "unit")
OWNERS = ("pid", "rank")  # The owner of a sample, if several processes or ranks have the same counter.
PARTS = 24  # Numbers in a counter's sparkline.
SCHEMA: dict[str, Any] = {
    "metric": NAME, "device": NAME, "unit": NAME, "pid": pl.Int64, "rank": pl.Int64, "samples": pl.Int64,
    "min": pl.Float64, "mean": pl.Float64, "p50": pl.Float64, "max": pl.Float64, "first_ns": pl.Int64,
    "last_ns": pl.Int64, "trend": pl.List(pl.Float64),
}


def summarised(run: Trace, owners: tuple[str, ...] = OWNERS) -> pl.DataFrame:
    """Rows in ``SCHEMA``, by counter and device; processes or ranks not in ``owners`` are pooled and null. ``samples``
    counts measured values: a counter that was requested but never read has 0, and null values. The unit is that of the
    samples or, if they have none, the one the counter's name implies."""
    keys = [*KEYS, *owners]
    measured = pl.col("value").is_finite()
    value = pl.when(measured).then(pl.col("value"))
    timed = pl.when(measured).then(pl.col("ts_ns"))
    frame = run.metrics.group_by(keys).agg(
        measured.fill_null(False).sum().cast(pl.Int64).alias("samples"), value.min().alias("min"),
        mean(value, "kind").alias("mean"), value.quantile(0.5, "lower").alias("p50"), value.max().alias("max"),
        timed.min().alias("first_ns"),
        pl.max_horizontal((timed + pl.col("dur_ns")).max(), timed.max()).alias("last_ns"),
        pl.col("kind").cast(pl.String).drop_nulls().first().alias("kind"),
        (measured & pl.col("dur_ns").is_not_null()).any().alias("held"),
    ).collect(engine="streaming")
    result = frame.join(_trends(run, keys), on=keys, how="left", nulls_equal=True)
    result = _held(run, keys, result) if result["held"].any() else result
    result = result.with_columns(pl.when(pl.col("kind").is_null()).then(pl.col("p50")))
    result = result.with_columns(
        pl.struct("metric", "unit", "max").map_elements(
            lambda row: display_unit(str(row["metric"]), row["unit"], row["max"]), return_dtype=pl.String,
            skip_nulls=False).alias("unit"),
        *(pl.lit(None, pl.Int64).alias(name) for name in OWNERS if name not in owners),
    )
    texts = [pl.col(name).cast(pl.String) for name in ("metric", "device")]
    number = pl.col("device").cast(pl.String).str.extract(r"(\d+)$").cast(pl.Int64, strict=False)
    ordered = result.sort(texts[0], number, texts[1], *OWNERS, nulls_last=True)
    return ordered.select(pl.col(name).cast(dtype) for name, dtype in SCHEMA.items())


def mean(value: pl.Expr, kind: str) -> pl.Expr:
    """The mean of the known values, which does not leave the number range; null for numbers that have none."""
    known = value.drop_nulls()
    return pl.when(pl.col(kind).is_null().all() & (known.len() > 0)).then(mean_within_range(known))


def _held(run: Trace, keys: list[str], rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with mean, median and trend of values that hold for a time weighted by that time."""
    bounds = run.metrics.select(
        pl.col("ts_ns").min(),
        last=pl.max_horizontal((pl.col("ts_ns") + pl.col("dur_ns")).max(), pl.col("ts_ns").max()),
    ).collect().row(0)
    edges = np.linspace(bounds[0], bounds[1], PARTS + 1)
    held = run.metrics.filter(pl.col("value").is_finite(), pl.col("dur_ns") > 0).select(
        *keys, "ts_ns", "dur_ns", "value").collect(engine="streaming").sort("ts_ns")
    result = [{**dict(zip(keys, key, strict=True)), **_weighted(part, edges)}
              for key, part in held.partition_by(keys, as_dict=True, maintain_order=True).items()]
    schema: dict[str, Any] = {**{name: rows.schema[name] for name in keys}, "_mean": pl.Float64, "_p50": pl.Float64,
              "_trend": pl.List(pl.Float64)}
    weighted = pl.DataFrame(result, schema=schema)
    joined = rows.join(weighted, on=keys, how="left", nulls_equal=True, maintain_order="left")
    return joined.with_columns(
        pl.coalesce(f"_{name}", name).alias(name) for name in ("mean", "p50", "trend")
    ).drop("_mean", "_p50", "_trend")


def _weighted(rows: pl.DataFrame, edges: Floats) -> dict[str, Any]:
    """Mean, median and trend of intervals: each value counts as long as it holds, and the last one until the next."""
    start, length, value = (rows[name].to_numpy() for name in ("ts_ns", "dur_ns", "value"))
    order = np.argsort(value, kind="stable")
    half = np.searchsorted(np.cumsum(length[order]), length.sum() / 2)
    trend = []
    for low, high in pairwise(edges.tolist()):
        inside = np.minimum(start + length, high) - np.maximum(start, low)
        inside = np.maximum(inside, 0)
        before = int(np.searchsorted(start, low, side="right")) - 1
        trend.append(float((value * (inside / inside.sum())).sum()) if inside.sum() > 0
                     else float(value[before]) if before >= 0 else None)
    share = length / length.sum()
    return {"_mean": float((value * share).sum()), "_p50": float(value[order[min(half, len(order) - 1)]]),
            "_trend": trend}


def _trends(run: Trace, keys: list[str]) -> pl.DataFrame:
    """The mean of each counter in ``PARTS`` equal parts of the sampled time; null in empty parts. Samples without times
    are divided by their order instead."""
    bounds = run.metrics.select(first=pl.col("ts_ns").min(), last=pl.col("ts_ns").max()).collect().row(0)
    first, last = (value or 0 for value in bounds)
    if bounds[0] is None:
        order = pl.int_range(pl.len()).over(keys)
        place = order * PARTS // pl.len().over(keys)
    else:
        place = (pl.col("ts_ns") - first) * PARTS // (last - first + 1)
    parts = (
        run.metrics.filter(pl.col("value").is_finite()).with_columns(place.cast(pl.Int64).alias("part"))
        .filter(pl.col("part").is_between(0, PARTS - 1))
        .group_by(*keys, "part").agg(mean_within_range(pl.col("value"))).collect(engine="streaming")
    )
    every = pl.DataFrame({"part": range(PARTS)}, schema={"part": pl.Int64})
    whole = parts.select(keys).unique().join(every, how="cross")
    full = whole.join(parts, on=[*keys, "part"], how="left", nulls_equal=True).sort("part")
    return full.group_by(keys, maintain_order=True).agg(pl.col("value").alias("trend"))
