"""Cycles from launches alone, where the host side has no iteration marks.

First a compiled program (a graph, an XLA executable) that runs repeatedly: its marks are the calls that run it, though
these return long before the device is done. Small programs run between steps, so the program with most device time is
the step. Else what repeats in the launches of each rank's busiest stream: with timestamps such a cycle lasts until the
next one begins, without them its length is the summed latency of its launches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, cast

import numpy as np
import polars as pl

from ...loaders import schema
from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..core import units
from ..core.batches import CALLS
from ..core.intervals import Intervals, union
from ..core.names.short_name import fit_name
from . import assignment
from .patterns import Pattern, find_patterns
from .sourced_cycles import SourcedCycles

LEAST_TOLD = 0.5
"""Share of the launches, or of their time, that a rhythm must contain to be taken for the cycles of the run."""
Bounds = list[tuple[int, int]]


def launches_by_rank(run: Trace) -> Iterator[tuple[int | None, pl.DataFrame]]:
    """Per rank, the launches of its busiest stream, sorted by start (by index without timestamps). Collectives do not
    count as busy: they wait for others, and have few names."""
    rows = run.kernels.filter(is_work()).select(
        "index", "start_ns", "dur_ns", "name", "kind", "device", "stream", "rank"
    ).collect(engine="streaming")
    streams = ["rank", "device", "stream"]
    work = pl.col("dur_ns") * (pl.col("kind") != "collective")
    busiest = rows.group_by(streams).agg(work.sum(), pl.len().alias("n")).sort(
        "dur_ns", "n", "device", "stream", descending=[True, True, False, False]
    ).group_by("rank", maintain_order=True).first()
    for rank, device, stream in busiest.sort("rank").select(streams).rows():
        matching = pl.col("rank").eq_missing(rank) & pl.col("stream").eq_missing(stream)
        matching = matching & pl.col("device").cast(pl.String).eq_missing(device)
        yield rank, rows.filter(matching).sort("start_ns", "index", nulls_last=True)


def launch_runs(table: pl.DataFrame, bounds: Bounds, labels: list[str], source: str, rank: int | None) -> pl.DataFrame:
    """Cycles from row ranges [first, stop) of ``table``, in the schema of ``cycles``. With timestamps a cycle ends
    where the next one begins if that follows directly, else with its last activity."""
    firsts, stops = (np.array([bound[i] for bound in bounds], dtype=np.int64) for i in (0, 1))
    index, spent = table["index"].to_numpy(), table["dur_ns"].fill_null(0).to_numpy()
    timed = table["start_ns"].null_count() == 0 and table.height > 0
    if timed:
        starts = table["start_ns"].to_numpy()
        ends = np.maximum.accumulate(starts + spent)[stops - 1]
        followed = np.append(firsts[1:] == stops[:-1], False)
        ends[followed] = starts[stops[followed]]
        spans = ends - starts[firsts]
    else:
        sums = np.concatenate(([0], np.cumsum(spent)))
        spans = sums[stops] - sums[firsts]
    frame = pl.DataFrame({
        "cycle": np.arange(1, len(bounds) + 1), "dur_ns": spans, "label": labels,
        "start_ns": starts[firsts] if timed else [None] * len(bounds),
        "first_index": index[firsts], "last_index": index[stops - 1],
    }, schema_overrides={"start_ns": pl.Int64, "label": pl.String})
    marked = frame.with_columns(
        pl.lit(rank, pl.Int64).alias("rank"), pl.lit("step").alias("kind"), pl.lit(source).alias("source"),
        pl.lit(True).alias("complete"),
    )
    return schema.conform("cycles", marked.lazy()).collect()


def repeated(run: Trace) -> list[SourcedCycles]:
    """Cycles from the repetition of kernel names on the busiest stream of each rank; none where nothing repeats."""
    result: list[tuple[int | None, pl.DataFrame, list[Pattern]]] = []
    for rank, table in launches_by_rank(run):
        codes = table["name"].to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        patterns = find_patterns(codes - codes.min(), _idle(table)) if len(codes) else []
        if _tells_the_run(table, patterns):
            result.append((rank, table, patterns))
    if not result:
        return []
    names = _names([patterns for _, _, patterns in result])
    pieces = []
    for rank, table, patterns in result:
        placed = sorted(
            (bound, name) for pattern, name in zip(patterns, names, strict=False) for bound in pattern.bounds
        )
        if not placed:
            continue
        bounds, labels = [bound for bound, _ in placed], [name for _, name in placed]
        pieces.append(launch_runs(table, bounds, labels, "pattern", rank))
    if not pieces:
        return []
    anchor = _worded(result[0][1], result[0][2])
    return [SourcedCycles(pl.concat(pieces), "pattern", anchor, device_time=True, guessed=True)]


def _names(ranks: list[list[Pattern]]) -> list[str]:
    """The name of each rhythm, from its median number of launches; the n-th rhythm of all ranks counts as the same."""
    periods = [
        int(np.median([patterns[i].period for patterns in ranks if i < len(patterns)]))
        for i in range(max(map(len, ranks)))
    ]
    names = [f"{period} launches" for period in periods]
    if len(set(names)) == len(names):
        return names
    return [f"{name}, {chr(ord('a') + i)}" for i, name in enumerate(names)]


def _tells_the_run(table: pl.DataFrame, patterns: list[Pattern]) -> bool:
    """Whether the rhythms contain half of the launches or the time from the first of them on: three convolutions in a
    row are not iterations. What came before, a start-up, does not matter."""
    if not patterns:
        return False
    first = min(pattern.bounds[0][0] for pattern in patterns)
    inside = np.zeros(table.height, dtype=bool)
    for pattern in patterns:
        for first, stop in pattern.bounds:
            inside[first:stop] = True
    inside, spent = inside[first:], table["dur_ns"].fill_null(0).to_numpy()[first:]
    return bool(inside.sum() >= LEAST_TOLD * len(inside) or spent[inside].sum() > LEAST_TOLD * spent.sum())


def _idle(table: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    if table["start_ns"].null_count():
        return None
    starts, ends = table["start_ns"].to_numpy(), (table["start_ns"] + table["dur_ns"].fill_null(0)).to_numpy()
    return np.append(0.0, np.maximum(starts[1:] - np.maximum.accumulate(ends)[:-1], 0)).astype(np.float64)


def _worded(table: pl.DataFrame, patterns: list[Pattern]) -> str:
    """What repeats, in words: '40 launches from layer_norm', '12 × 38 and 12 × 90 launches'."""
    if len(patterns) == 1:
        return f"{patterns[0].period} launches from {fit_name(str(table['name'][patterns[0].bounds[0][0]]), 40)}"
    return " and ".join(f"{len(pattern.bounds)} × {pattern.period}" for pattern in patterns) + " launches"


PROGRAM = r"^(PJRT_LoadedExecutable_Execute|PjitFunction\(.*\)|(hip|cuda|cu)GraphLaunch(_\w+)?)$"
"""Calls that run a whole compiled program."""
LEAST = 3  # Executions needed for a rhythm.
CAPTURES = ("StreamBeginCapture", "StreamEndCapture")
"""Parts of the names of the calls between which a thread captures a graph: what it launches then does not run."""


def executed(run: Trace) -> list[SourcedCycles]:
    """One cycle per execution of the program with most device time, whose mark is the call; none where none repeats."""
    calls = run.host.filter(pl.col("name").cast(pl.String).str.contains(PROGRAM), pl.col("dur_ns") >= 0).select(
        pl.col("name").cast(pl.String), "start_ns", "dur_ns", "rank", "pid", "tid").drop_nulls(["start_ns"])
    found = calls.sort("start_ns").collect(engine="streaming")
    if found.height < LEAST:
        return []
    captured = in_capture(run, found)
    found = found if captured.all() else found.filter(~captured)
    work = assignment.launched(run).filter(is_work()).select(
        pl.col("name").cast(pl.String), "launch_ns", "start_ns", "dur_ns", "rank",
    ).drop_nulls(["launch_ns", "start_ns", "dur_ns"]).sort("start_ns").collect(engine="streaming")
    by_rank = [
        (rank, cycles) for rank in work["rank"].unique().sort()
        if (cycles := _of_rank(_mine(found, rank), _mine(work, rank))) is not None
    ]
    if not by_rank:
        return []
    names = pl.concat([cycles for _, cycles in by_rank])["label"].unique().to_list()
    frame = pl.concat([_frame(cycles, rank) for rank, cycles in by_rank])
    anchor = names[0] if len(names) == 1 else None
    return [SourcedCycles(frame, "execution", anchor, guessed=True, captured=bool(captured.all()))]


def in_capture(run: Trace, rows: pl.DataFrame) -> pl.Series:
    """Whether each of the slices (``start_ns rank pid tid``) begins while its thread captures a graph."""
    name = pl.col("name").cast(pl.String)
    calls = run.host.filter(name.str.contains("|".join(CAPTURES))).select(
        "rank", "pid", "tid", "start_ns", end=pl.col("start_ns") + pl.col("dur_ns").fill_null(0),
        begins=name.str.contains(CAPTURES[0], literal=True)).drop_nulls("start_ns").collect(engine="streaming")
    if calls.is_empty():
        return pl.repeat(False, rows.height, dtype=pl.Boolean, eager=True)
    threads = pl.concat([rows.select("rank", "pid", "tid"), calls.select("rank", "pid", "tid")]).select(
        pl.struct("rank", "pid", "tid").rank("dense").alias("thread")).to_series()  # nulls do not join
    moments = rows.select("start_ns").with_columns(thread=threads[: rows.height]).with_row_index("row")
    last = moments.sort("start_ns").join_asof(
        calls.with_columns(thread=threads[rows.height :]).sort("start_ns"), on="start_ns", by="thread",
        strategy="backward", check_sortedness=False)
    inside = pl.col("begins") | (pl.col("start_ns") < pl.col("end"))
    return last.sort("row").select(inside.fill_null(False)).to_series()


_GRAPH_LAUNCH = "GraphLaunch"
_WORK = f"{'|'.join(CAPTURES)}|(?i:launch)"


class GraphCapture(NamedTuple):
    """The capture of graphs in a recording: launch calls captured and in all, graph launches, and when threads
    captured."""

    captured: int
    launches: int
    replays: int
    during: Intervals

    @property
    def sentence(self) -> str:
        """The capture as the end of a sentence."""
        rest = "" if self.replays else ", and no replay is recorded"
        return (f"{units.count(self.captured)} of {units.count(self.launches)} launch calls are captured into a graph "
                f"instead of being run{rest}")


def graph_capture(run: Trace) -> GraphCapture | None:
    """The capture of graphs in a run; None where no launch call lies between the begin and the end of a capture."""
    if not run.has("host"):
        return None
    name = pl.col("name").cast(pl.String)
    calls = run.host.filter(pl.col("kind").is_in(CALLS), name.str.contains(_WORK)).select(
        name, "start_ns", "rank", "pid", "tid", end=pl.col("start_ns") + pl.col("dur_ns").fill_null(0),
    ).drop_nulls("start_ns").sort("start_ns").collect(engine="streaming")
    begins, ends = (calls["name"].str.contains(one, literal=True) for one in CAPTURES)
    if not begins.any():
        return None
    rows = calls.filter(~(begins | ends))
    captured = int(in_capture(run, rows).sum())
    if not captured:
        return None
    opened = calls.filter(begins).select("rank", "pid", "tid", "start_ns")
    closed = calls.filter(ends).select("rank", "pid", "tid", "end", start_ns="start_ns")
    threads = pl.concat([opened.select("rank", "pid", "tid"), closed.select("rank", "pid", "tid")]).select(
        pl.struct("rank", "pid", "tid").rank("dense").alias("thread")).to_series()  # nulls do not join
    spans = opened.with_columns(thread=threads[: opened.height]).join_asof(
        closed.with_columns(thread=threads[opened.height :]).select("thread", "start_ns", "end"), on="start_ns",
        by="thread", strategy="forward", check_sortedness=False).with_columns(
        pl.col("end").fill_null(calls["end"].max()))
    replays = int(rows["name"].str.contains(_GRAPH_LAUNCH, literal=True).sum())
    return GraphCapture(captured, rows.height - replays, replays, union(*spans.select("start_ns", "end").to_numpy().T))


def _mine(rows: pl.DataFrame, rank: int | None) -> pl.DataFrame:
    return rows.filter(pl.col("rank").is_null() | pl.col("rank").eq_missing(pl.lit(rank, pl.Int64)))


def _of_rank(calls: pl.DataFrame, work: pl.DataFrame) -> pl.DataFrame | None:
    """``start_ns dur_ns label`` of the calls of one rank that run the program with most device time. One call runs
    different programs: those that begin with the same kernel are one."""
    best: tuple[int, pl.DataFrame] | None = None
    for (name,), own in calls.group_by("name", maintain_order=True):
        end = pl.col("start_ns") + pl.col("dur_ns")
        outer = own.filter((pl.col("start_ns") >= end.cum_max().shift(1)).fill_null(True))
        starts, ends = outer["start_ns"].to_numpy(), (outer["start_ns"] + outer["dur_ns"]).to_numpy()
        launch = work["launch_ns"].to_numpy()
        at = np.searchsorted(starts, launch, side="right") - 1
        inside = (at >= 0) & (launch <= ends[np.maximum(at, 0)])
        rows = work.with_columns(pl.Series("call", at)).filter(pl.Series(inside))
        each = rows.group_by("call").agg(
            spent=pl.col("dur_ns").sum(), program=pl.col("name").sort_by("start_ns").first()).sort("call")
        for _, program in each.group_by("program", maintain_order=True):
            spent = int(program["spent"].sum())
            if program.height >= LEAST and (best is None or spent > best[0]):
                best = spent, outer[program["call"].to_numpy()].select(
                    "start_ns", "dur_ns", label=pl.lit(cast(str, name)))
    return None if best is None else best[1]


def _frame(cycles: pl.DataFrame, rank: int | None) -> pl.DataFrame:
    rows = cycles.with_row_index("cycle", offset=1).with_columns(
        pl.lit(rank, pl.Int64).alias("rank"), pl.lit("step").alias("kind"), pl.lit("execution").alias("source"),
        pl.lit(True).alias("complete"),
    )
    return schema.conform("cycles", rows.lazy()).collect()
