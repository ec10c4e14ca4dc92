"""The cycles of a run: how long each took, how busy its devices were, which stand out, and what two runs differ by.

``cycles_of`` is the one answer to "which cycles does this run have"; every other question (scope, β, the diff) asks it,
so that all of them speak of the same cycles. A cycle the recorder did not see whole is ``complete = false``: its length
is known, what its devices did is not, and stays null. Nothing is left out silently: warm-up cycles are marked, and
counted even when ``Options.warm_up`` leaves them out.
"""

from __future__ import annotations

from collections import deque
from typing import Any, cast

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...loaders import schema
from ...loaders.trace import Trace
from ..core.distribution import fence, statistics
from ..core.options import Options
from ..table.view import CannotAnswer
from . import assignment, launch_runs
from . import sources as cycle_sources
from .cycles_found import LIMITED, Found
from .phases import with_phases

WARM_UP_FACTOR = 1.5
"""A first cycle this many times the median is warm-up, and so is each after it that still is..."""
WARM_UP_SHARE = 0.25
"""...as long as at most this share of all cycles are."""
LIKE = 0.98
"""Where most cycles have the same number of device records, one with fewer than this share of it was not seen whole."""
LIKE_LOOSE = 0.5
"""The same where their numbers differ from cycle to cycle."""
LATE = 0.3
"""Share of the device time after the last cycle's end from which a note says so."""

EXTRA = {
    "busy_ns": pl.Int64, "idle_ns": pl.Int64, "warm_up": pl.Boolean, "outlier": pl.Boolean, "records": pl.Int64,
}
"""What ``cycles_of`` has beside the columns of the table: device time, flags, and the number of device activities."""


class Cycles(Struct, frozen=True):
    """The cycles of one run: ``frame`` (schema of ``cycles`` and ``EXTRA``), where they are from, what to know."""

    frame: pl.DataFrame
    source: str | None
    anchor: str | None
    device_time: bool = False
    notes: tuple[str, ...] = ()


_known: deque[tuple[Trace, str | None, Cycles]] = deque(maxlen=8)


def find_cycles(run: Trace, options: Options) -> Cycles:
    """The cycles of the run by the first source that has any; an empty frame and a note where nothing repeats."""
    for trace, anchor, cycles in _known:
        if trace is run and anchor == options.cycle_anchor:
            return cycles
    cycles = _find(run, options.cycle_anchor)
    _known.append((run, options.cycle_anchor, cycles))
    return cycles


def cycles_of(run: Trace, options: Options) -> pl.LazyFrame:
    """The run's cycles in the schema of the table ``cycles`` with ``busy_ns idle_ns warm_up outlier records`` added."""
    return find_cycles(run, options).frame.lazy()


SOURCES = (cycle_sources.recorded, cycle_sources.annotated, cycle_sources.anchored, launch_runs.repeated)
"""Where cycles are looked for, in the order they are trusted."""


def _find(run: Trace, anchor: str | None) -> Cycles:
    if anchor is not None:
        found = cycle_sources.overridden(run, anchor)
        if found is None:
            return _none(f"no host function or kernel matches the cycle anchor {anchor!r}")
        return _complete(run, found)
    if run.info.facts.get(LIMITED) and not run.has("cycles"):
        return _none("no cycles in what it is limited to")
    for source in SOURCES:
        found = source(run)
        if found is not None:
            return _complete(run, found)
    return _none("no cycles: no step marks, and no annotation, function or run of launches that repeats")


def _none(note: str) -> Cycles:
    frame = schema.empty("cycles").with_columns(pl.lit(None, dtype=kind).alias(name) for name, kind in EXTRA.items())
    return Cycles(frame.collect(), None, None, notes=(note,))


def _complete(run: Trace, found: Found) -> Cycles:
    """The source's cycles with everything that follows from the rest of the recording."""
    frame = with_phases(run, found.frame, found.device_time)
    records, busy = _device_records(run, found)
    frame = frame.with_columns(
        pl.Series("records", records, dtype=pl.Int64), pl.Series("busy_ns", busy, dtype=pl.Int64)
    )
    # cycles made of what was recorded cannot show what was not
    seen = [True] * frame.height if found.device_time else _whole(frame)
    whole = pl.Series("complete", seen, dtype=pl.Boolean)
    frame = frame.with_columns(whole & frame["complete"].fill_null(True)).with_columns(
        pl.when("complete").then("busy_ns").alias("busy_ns"),
        pl.Series("warm_up", _warm_up(frame), dtype=pl.Boolean),
    )
    timed = pl.col("start_ns").is_not_null()  # without timestamps nobody saw what lies between two launches
    frame = frame.with_columns(
        pl.when((pl.col("busy_ns") <= pl.col("dur_ns")) & timed).then(pl.col("dur_ns") - pl.col("busy_ns"))
        .alias("idle_ns"),
        pl.Series("outlier", _outliers(frame), dtype=pl.Boolean),
    )
    order = [*schema.polars_schema("cycles"), *EXTRA]
    notes = (*found.notes, *_late_note(run, found, frame))
    return Cycles(frame.select(order), found.source, found.anchor, found.device_time, notes)


def _late_note(run: Trace, found: Found, frame: pl.DataFrame) -> list[str]:
    """Says so where the devices mostly work after the host left the cycle: then busy time tells little about it."""
    if found.device_time or frame["start_ns"].null_count() or not frame["records"].sum():
        return []
    last = cast(int | None, (frame["start_ns"] + frame["dur_ns"]).max()) or 0
    work = run.kernels.filter(pl.col("kind") != "sync").select("dur_ns", late=pl.col("start_ns") >= last)
    late, total = work.select((pl.col("dur_ns") * pl.col("late")).sum(), all=pl.col("dur_ns").sum()).collect().row(0)
    if not total or late < LATE * total:
        return []
    return [f"{100 * late / total:.0f}% of the device time lies after the last cycle, which the host did not wait for"]


def _device_records(run: Trace, found: Found) -> tuple[list[int | None], list[int | None]]:
    """Per cycle how many device activities belong to it and how long devices were busy (None where not recorded)."""
    frame = found.frame
    if run.has("kernels"):
        inside = assignment.in_cycles(run, frame, found.device_time).filter(pl.col("kind") != "sync")
        keys = ["cycle"] if frame["rank"].null_count() else ["rank", "cycle"]
        counts = inside.group_by(keys).len().collect(engine="streaming")
        records = frame.join(counts, on=keys, how="left", maintain_order="left")["len"].fill_null(0).to_list()
        if frame["start_ns"].null_count():
            return records, [int(span) for span in frame["dur_ns"]]
        return records, assignment.busy_ns(run, frame)
    if run.has("profile"):
        # two processes may each have a cycle 3, which began at different times
        same = ["cycle", "start_ns"]
        functions = run.profile.filter(pl.col("device") != "Host").rename({"cycle_start_ns": "start_ns"})
        sums = functions.unique([*same, "pid", "function", "device"]).group_by(same).agg(
            pl.col("instances").sum().alias("records"), pl.col("dur_ns").sum().alias("busy"),
            pl.col("device").n_unique().alias("devices"),
        ).collect(engine="streaming")
        joined = frame.join(sums, on=same, how="left", nulls_equal=True, maintain_order="left")
        return joined["records"].fill_null(0).to_list(), (joined["busy"] // joined["devices"]).to_list()
    return [None] * frame.height, [None] * frame.height


def like(frame: pl.DataFrame) -> str:
    """The column that says which cycles are like each other: their kind, or the rhythms of one sequence."""
    sources, kinds = (frame[name].cast(pl.String) for name in ("source", "kind"))
    return "label" if sources.eq("pattern").any() and kinds.eq("step").all() else "kind"


def _whole(frame: pl.DataFrame) -> list[bool]:
    """Whether each cycle has as many device records as its like (the cycles of its kind and rank)."""
    whole = [True] * frame.height
    rows = frame.with_row_index("row").filter(pl.col("records").is_not_null())
    for _, group in rows.group_by("rank", like(frame)):
        counts = group["records"].to_numpy()
        seen = counts[counts > 0]
        if not len(seen):
            continue
        values, times = np.unique(seen, return_counts=True)
        common = int(values[times.argmax()])
        uniform = len(counts) > 2 and times.max() * 2 > len(seen)
        least = LIKE * common if uniform else LIKE_LOOSE * float(np.median(seen))
        for row, count in zip(group["row"], counts, strict=True):
            whole[row] = bool(count > 0 and count >= least)
    return whole


def _warm_up(frame: pl.DataFrame) -> list[bool]:
    """The first cycles of a rank that are clearly slower than the rest of their kind."""
    marks = [False] * frame.height
    if frame["start_ns"].null_count():
        return marks  # launches without times were replayed, or are the layers of one iteration
    rows = frame.with_row_index("row")
    for _, group in rows.group_by("rank", like(frame), maintain_order=True):
        spans = group["dur_ns"].to_numpy()
        most = int(len(spans) * WARM_UP_SHARE)
        limit = WARM_UP_FACTOR * float(np.median(spans[most:])) if len(spans) else 0.0
        for row, span in zip(group["row"][:most], spans[:most], strict=True):
            if span <= limit:
                break
            marks[row] = True
    return marks


def _outliers(frame: pl.DataFrame) -> list[bool]:
    """Which cycles are much slower than the steady ones like them."""
    marks = [False] * frame.height
    for _, group in frame.with_row_index("row").group_by(like(frame)):
        limit = fence(group.filter(~pl.col("warm_up"))["dur_ns"].cast(pl.Float64).to_numpy())
        for row, span in zip(group["row"], group["dur_ns"], strict=True):
            marks[row] = span > limit
    return marks


def counted(run: Trace, options: Options) -> Cycles:
    """The run's cycles without the warm-up where the options leave it out."""
    cycles = find_cycles(run, options)
    if cycles.frame.is_empty():
        raise CannotAnswer(
            f"{run.info.label} has {cycles.notes[0]}; --cycle-anchor names a function or kernel to take them from."
            if cycles.notes and cycles.notes[0].startswith("no cycles") else f"{run.info.label}: {cycles.notes[0]}."
        )
    if options.warm_up or not cycles.frame["warm_up"].any():
        return cycles
    left_out = int(cycles.frame["warm_up"].sum())
    return replace(
        cycles, frame=cycles.frame.filter(~pl.col("warm_up")),
        notes=(*cycles.notes, f"{left_out} warm-up cycle{'s' if left_out > 1 else ''} of {run.info.label} left out"),
    )


def facts_of(cycles: Cycles) -> dict[str, Any]:
    """Numbers about one run's cycles: the statistics of their durations, their source, and how many of what."""
    frame = cycles.frame
    facts = statistics(frame["dur_ns"].cast(pl.Float64).to_numpy())
    facts |= {
        "source": cycles.source, "anchor": cycles.anchor, "incomplete": int((~frame["complete"]).sum()),
        "warm_up": int(frame["warm_up"].sum()), "outliers": int(frame["outlier"].sum()),
        "kinds": {
            str(kind): statistics(group["dur_ns"].cast(pl.Float64).to_numpy())
            for (kind,), group in frame.group_by(pl.col(like(frame)).cast(pl.String), maintain_order=True)
        },
    }
    return facts
