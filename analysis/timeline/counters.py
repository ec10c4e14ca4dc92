"""Counters as strips under the lanes: the mean of the samples in each column, or else the last sample before it.

A constant counter gets a strip, too: a clock stuck at 210 MHz may be the whole story. Counters that differ between two
runs come first.
"""

from __future__ import annotations

from collections import Counter as Counting
from collections.abc import Sequence

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core import metrics
from .coverage import Floats, Ints


class Counter(Struct, frozen=True):
    """One counter of one device: sample times (ns, sorted), running sum from 0 of the values divided by
    ``scale``, minimum and maximum."""

    metric: str
    device: str | None
    unit: str
    moments: Ints
    sums: Floats
    low: float
    high: float
    scale: float = 1.0

    @property
    def mean(self) -> float:
        """The mean of all samples."""
        return float(self.sums[-1]) / len(self.moments) * self.scale

    @property
    def constant(self) -> bool:
        """Whether all samples are the same."""
        return self.low == self.high

    def means(self, edges: Ints) -> Floats:
        """Mean of the samples in each column; without one the last value before it; NaN before the first sample."""
        at = np.searchsorted(self.moments, edges, side="left")
        count = at[1:] - at[:-1]
        total = self.sums[at[1:]] - self.sums[at[:-1]]
        last = self.sums[at[1:]] - self.sums[np.maximum(at[1:] - 1, 0)]
        held = np.where(at[1:] > 0, last, np.nan)
        return np.where(count > 0, total / np.maximum(count, 1), held) * self.scale


_MOST_SUMMED = 1e290


class Strip(Struct, frozen=True):
    """A counter as drawn: scaled from ``low`` to ``high``, the minimum and maximum over both runs (from 0 if constant).
    ``before``: for a counter of run B, the same counter of run A if the two differ."""

    counter: Counter
    name: str
    low: float
    high: float
    before: Counter | None = None

    def value(self, start: int, end: int, ahead: int = 0) -> str:
        """Text: mean between two moments (ns), range over the whole run and, if run A differs, its mean at the same
        place, which is ``ahead`` ns earlier in its time."""
        one, unit = self.counter, self.counter.unit
        edges = np.array([start, end], dtype=np.int64)
        mean = float(one.means(edges)[0])
        if np.isnan(mean):
            return "not sampled yet"
        text = metrics.value_text(mean, unit)
        if one.constant:
            text += ", constant"
        else:
            text += f" ({metrics.change(one.low, one.high, unit).replace(' → ', ' to ' if one.low < 0 else '–')})"
        before = np.nan if self.before is None else float(self.before.means(edges - ahead)[0])
        if np.isnan(before):
            return text
        arrow = "▼ " if mean < before else "▲ " if mean > before else ""
        return f"{arrow}{text}; A {metrics.value_text(before, unit)}"

    @property
    def judgement(self) -> str:
        """'bad' if a resource is scarcer than in run A, 'good' if there is more of it, else ''."""
        if self.before is None:
            return ""
        one = metrics.metric(self.counter.metric, self.counter.unit, 100 * self.counter.high)
        if one.role != "capacity":
            return ""
        now, before = (metrics.load(one, np.array([each.mean]), np.zeros(1))[0] for each in (self.counter, self.before))
        return "bad" if now > before else "good"


_CHANGED = 0.05  # Relative difference of the means from which a counter counts as changed.
_FIRST = ("clock", "warmth", "processor", "traffic", "own use", "room")


def strips(runs: Sequence[Sequence[Counter]], devices: Sequence[str | None]) -> list[tuple[Strip, ...]]:
    """The strips of one run or two, sorted: changed resources first; the runs' devices, then hosts, then other devices;
    clocks before the rest. Queue depths follow the first changed counter. ``devices``: per run the only device with
    lanes, which is left out of the names; None where there are several."""
    of_run = [{(one.metric, one.device): one for one in counters} for counters in runs]
    changed = {
        key for key, one in of_run[0].items() if len(runs) > 1 and (other := of_run[1].get(key)) is not None
        and abs(one.mean - other.mean) > _CHANGED * max(abs(one.mean), abs(other.mean))
    }

    def place(one: Counter) -> tuple[object, ...]:
        means = metrics.metric(one.metric, one.unit, 100 * one.high).means
        shared = means in ("own use", "room")
        away = one.device not in devices
        other = away and (one.device or "").startswith("GPU")
        return ((one.metric, one.device) not in changed or shared, 2 * other or away,
                _FIRST.index(means), "sm" not in one.metric, -len(one.moments), one.metric, one.device or "")

    result = []
    for at, counters in enumerate(of_run):
        times = Counting(one.metric for one in counters.values())
        rows = []
        for key, one in counters.items():
            same = [each[key] for each in of_run if key in each]
            low, high = min(each.low for each in same), max(each.high for each in same)
            several = times[one.metric] > 1 and one.device != devices[at]
            rows.append(Strip(
                one, f"{metrics.title(one.metric)} {one.device}" if several else metrics.title(one.metric),
                min(0.0, low) if all(each.constant for each in same) else low, high,
                of_run[0][key] if at and key in changed else None,
            ))
        rows.sort(key=lambda row: place(row.counter))
        queues = [row for row in rows if row.counter.metric.startswith("queue depth")]
        rest = [row for row in rows if not row.counter.metric.startswith("queue depth")]
        telling = sum((row.counter.metric, row.counter.device) in changed for row in rest[:1])
        result.append((*rest[:telling], *queues, *rest[telling:]))
    return result


def counters_of(run: Trace) -> tuple[Counter, ...]:
    """Every counter of the run, the most sampled first; one that several ranks sampled names the rank with its device.
    """
    keys = ["metric", "device"]
    alone = pl.col("rank").n_unique().over(keys) == 1
    frame = run.metrics.filter(pl.col("ts_ns").is_not_null() & pl.col("value").is_finite()).select(
        *(pl.col(key).cast(pl.String) for key in keys), pl.col("unit").cast(pl.String), "ts_ns", "value", "rank"
    ).with_columns(device=pl.when(alone | pl.col("rank").is_null()).then("device").otherwise(
        pl.concat_str("device", pl.lit("rank"), "rank", separator=" ", ignore_nulls=True))
    ).sort(*keys, "ts_ns").collect()
    result = []
    for (metric, device), group in frame.group_by(keys, maintain_order=True):
        values = group["value"].to_numpy()
        unit = metrics.display_unit(str(metric), group["unit"][0], float(values.max()))
        most = float(np.abs(values).max())  # a sum of numbers at the end of the range leaves it
        scale = most if most > _MOST_SUMMED else 1.0
        sums = np.concatenate(([0.0], np.cumsum(values / scale)))
        result.append(Counter(
            str(metric), None if device is None else str(device), unit, group["ts_ns"].to_numpy(), sums,
            float(values.min()), float(values.max()), scale,
        ))
    return tuple(sorted(result, key=lambda one: -len(one.moments)))
