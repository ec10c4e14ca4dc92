"""Difference of a cycle from similar cycles, by kernel and by cause of idle time.

Every cycle is compared with the median of the complete, non-warm-up cycles of its rank and kind. Computed once for all
cycles of a run as a matrix of cycles × parts; a part is a kernel, copy, profiled function, or cause of idle time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..contract.options import Options
from ..contract.sections import MOST, Section
from ..core import units
from ..core.names.short_name import fit_name
from ..cycles.assignment import in_cycles
from ..cycles.completeness import like
from ..cycles.detection import Cycles, find_cycles
from ..idle.by_cycle import idle_by_cycle
from ..idle.cause_meanings import idle_name

LEAST = 3  # Fewest similar cycles for a meaningful median.
MOST_CELLS = 2_000_000  # Most cells (cycles × parts) of the matrix; beyond it the cheapest parts are left out.
KEYS = ("part", "idle")
Matrix = np.ndarray[Any, np.dtype[np.float64]]


class CyclePart(Struct, frozen=True):
    """A kernel or (``idle``) a cause of idle time, by ``name``: time (ns) and launches here and in the median cycle."""

    name: str
    idle: bool
    here_ns: float
    usual_ns: float
    count: int
    usual_count: float

    @property
    def delta_ns(self) -> float:
        """Time here minus the usual time."""
        return self.here_ns - self.usual_ns


class Difference(Struct, frozen=True):
    """One cycle compared with ``alike`` similar ones: their medians (``usual_*``, ns; None where unknown), parts sorted
    by |Δ|. No parts if the cycle is not ``whole`` (not recorded completely)."""

    alike: int
    time_ns: int
    usual_ns: float
    busy_ns: int | None
    usual_busy_ns: float | None
    idle_ns: int | None
    usual_idle_ns: float | None
    whole: bool
    parts: tuple[CyclePart, ...]


class Differences(Struct, frozen=True):
    """All cycles: ``frame`` as detected; ``group``, a number shared by similar cycles; ``usual``, whether a cycle
    counts for the median; ``time`` (ns) and ``count``, cycles × ``parts`` (name, idle)."""

    frame: pl.DataFrame
    group: np.ndarray[Any, np.dtype[np.int64]]
    usual: np.ndarray[Any, np.dtype[np.bool_]]
    parts: list[tuple[str, bool]]
    time: Matrix
    count: Matrix

    def of(self, cycle: int, rank: int | None, most: int) -> Difference | None:
        """The difference of a cycle; None if too few cycles are similar."""
        wanted = (self.frame["cycle"] == cycle) & (self.frame["rank"].eq_missing(rank) if rank is not None else True)
        at = wanted.arg_max()
        if at is None or not wanted[at]:
            return None
        alike = np.flatnonzero((self.group == self.group[at]) & self.usual)
        if len(alike) < LEAST:
            return None
        row = self.frame.row(at, named=True)
        others = self.frame[alike]
        parts: list[CyclePart] = []
        if row["complete"]:
            usual, counts = np.median(self.time[alike], axis=0), np.median(self.count[alike], axis=0)
            delta = np.abs(self.time[at] - usual)
            for number in np.argsort(-delta, kind="stable")[:most]:
                if delta[number] > 0:
                    name, idle = self.parts[number]
                    parts.append(CyclePart(name, idle, float(self.time[at, number]), float(usual[number]),
                                      int(self.count[at, number]), float(counts[number])))
        return Difference(
            len(alike), row["dur_ns"], _median(others["dur_ns"]) or 0.0, row["busy_ns"], _median(others["busy_ns"]),
            row["idle_ns"], _median(others["idle_ns"]), row["complete"], tuple(parts),
        )


def _median(values: pl.Series) -> float | None:
    middle = values.drop_nulls().cast(pl.Float64).median()
    return middle if isinstance(middle, float) else None


def differences(run: Trace, options: Options) -> Differences:
    """The cycles of a run with the data to compare similar ones."""
    cycles = find_cycles(run, options)
    frame = cycles.frame
    keys = frame.select(pl.col("rank").fill_null(-1), pl.col(like(frame)).cast(pl.String).alias("kind"))
    group = keys.select(pl.struct("rank", "kind").rank("dense")).to_series().cast(pl.Int64).fill_null(0).to_numpy()
    usual = (frame["complete"].fill_null(True) & ~frame["warm_up"].fill_null(False)).to_numpy()
    rows = [_work(run, cycles), _idle(run, cycles)]
    work = pl.concat([one for one in rows if one is not None] or [_NOTHING])
    parts, time, count = _matrix(frame, work)
    return Differences(frame, group, usual, parts, time, count)


_NOTHING = pl.DataFrame(schema={
    "cycle": pl.Int64, "rank": pl.Int64, "part": pl.String, "idle": pl.Boolean, "time": pl.Int64, "count": pl.Int64,
})


def _work(run: Trace, cycles: Cycles) -> pl.DataFrame | None:
    """Time and launches per cycle of each kernel, or of each function where only a profile was recorded."""
    if cycles.frame.is_empty():
        return None
    if run.has("kernels"):
        rows = in_cycles(run, cycles.frame, cycles.device_time).filter(is_work()).select(
            "cycle", "rank", pl.col("name").alias("part"), "dur_ns", pl.lit(1).alias("instances"))
    elif run.has("profile"):
        once = run.profile.unique(["cycle", "pid", "function", "device"])
        rows = once.select("cycle", pl.lit(None, pl.Int64).alias("rank"), pl.col("function").alias("part"), "dur_ns",
                           "instances")
    else:
        return None
    return rows.group_by("cycle", "rank", "part").agg(
        time=pl.col("dur_ns").sum(), count=pl.col("instances").sum().cast(pl.Int64)
    ).select(
        pl.col("cycle").cast(pl.Int64), "rank", pl.col("part").cast(pl.String), pl.lit(False).alias("idle"), "time",
        "count",
    ).drop_nulls("part").collect(engine="streaming")


def _idle(run: Trace, cycles: Cycles) -> pl.DataFrame | None:
    """Idle time per cycle by cause; None where launches were not recorded."""
    if not run.has("kernels") or not run.has("host"):
        return None
    idle = idle_by_cycle(run, cycles.frame, cycles.times)
    return idle.group_by("cycle", "rank", "cause").agg(time=pl.col("dur_ns").sum()).select(
        "cycle", "rank", pl.col("cause").cast(pl.String).alias("part"), pl.lit(True).alias("idle"), "time",
        pl.lit(1, pl.Int64).alias("count"))


def _matrix(frame: pl.DataFrame, work: pl.DataFrame) -> tuple[list[tuple[str, bool]], Matrix, Matrix]:
    """The parts with the most time, and their time and launches per cycle."""
    totals = work.group_by(KEYS).agg(pl.col("time").sum()).sort("time", *KEYS, descending=[True, False, False])
    columns = totals.head(max(1, MOST_CELLS // max(1, frame.height))).select(KEYS).with_row_index("column")
    ranked = frame["rank"].null_count() < frame.height
    same = ["cycle", "rank"] if ranked else ["cycle"]
    rows = frame.select(same).with_row_index("row").unique(same, keep="first", maintain_order=True)
    placed = work.join(rows, on=same, how="inner", nulls_equal=True).join(columns, on=KEYS, how="inner")
    at = placed["row"].to_numpy().astype(np.int64) * columns.height + placed["column"].to_numpy()
    shape, size = (frame.height, columns.height), frame.height * columns.height
    time, count = (
        np.bincount(at, weights=placed[name].to_numpy(), minlength=size).astype(np.float64).reshape(shape)
        for name in ("time", "count")
    )
    return list(columns.select(KEYS).iter_rows()), time, count


LEAST_SHARE = 0.001  # A part that changed by less than this share of the cycle is not listed.


def glance(runs: tuple[Trace, ...], options: Options) -> Callable[[dict[str, Any]], list[Section]]:
    """A function that gives the sections for a row of the cycles view, of one run or two."""
    sides = [differences(run, options) for run in runs]

    def of(row: dict[str, Any]) -> list[Section]:
        if len(sides) == 1:
            return _sections(sides[0], row["cycle"], row["rank"], f"Cycle {row['cycle']}")
        return [
            section for side, one in zip("ab", sides, strict=True) if row[f"cycle_{side}"] is not None
            for section in _sections(one, row[f"cycle_{side}"], row[f"rank_{side}"],
                                     f"Cycle {row[f'cycle_{side}']} of {side.upper()}")
        ]

    return of


def _sections(differences: Differences, cycle: int, rank: int | None, title: str) -> list[Section]:
    difference = differences.of(cycle, rank, MOST)
    if difference is None:
        return [Section(title, (("", "too few similar cycles to compare it with"),))]
    rows = [("time", _against(difference.time_ns, difference.usual_ns))]
    for label, here, usual in (
        ("busy", difference.busy_ns, difference.usual_busy_ns), ("idle", difference.idle_ns, difference.usual_idle_ns)
    ):
        if here is not None and usual is not None:
            rows.append((label, _against(here, usual)))
    return [Section(f"{title} vs median of {difference.alike} similar cycles", tuple(rows)), *_parts(difference)]


def _against(here: float, usual: float) -> str:
    change = f" ({units.percent(100 * (here - usual) / usual, signed=True)})" if usual else ""
    return f"{units.duration(here)}, {units.duration(here - usual, signed=True)}{change}"


def _parts(difference: Difference) -> list[Section]:
    rows = tuple(
        (idle_name(one.name) if one.idle else fit_name(one.name, 60),
         units.duration(one.here_ns), units.duration(one.delta_ns, signed=True), _launches(one))
        for one in difference.parts if abs(one.delta_ns) >= LEAST_SHARE * difference.time_ns
    )
    if not rows:
        reason = "no kernel and no wait differs" if difference.whole else "it was not recorded whole"
        return [Section("What is different", (("", reason),))]
    return [Section("What is different", rows, ("kernel, or cause of idle time", "here", "Δ", "launches"))]


def _launches(one: CyclePart) -> str:
    """Launches here, and the usual number if it differs; '' for idle time."""
    if one.idle:
        return ""
    usual = round(one.usual_count)
    return units.count(one.count) + (f" of {units.count(usual)}" if usual != one.count else "")
