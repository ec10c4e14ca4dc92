"""The details of an idle gap: the launching thread's slices during the gap, and the launches around it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import polars as pl

from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..contract.options import Options
from ..contract.sections import MOST, Section
from ..core import units
from ..core.callers import callers_of
from ..core.names.short_name import fit_name, short_name
from ..core.text import display
from ..idle.attribution import idle_of
from ..idle.sampled import samples_of
from .listed import in_run, row_section, tail, text

CELLS, BRIEF_CELLS = 28, 16
"""Width of a gap's bars in the details, and in the pane beside the list."""
_AROUND = 3  # Launches shown before and after a gap.
_INNERMOST = 2  # Calls spanning the whole gap that are shown.
Row = dict[str, Any]


def gap_sections(row: Row, runs: tuple[Trace, ...], options: Options) -> list[Section]:
    """The host stack during the gap, outermost first, CPU samples, and the launches before and after it. Two runs are
    compared by cause: the operators whose launches ended gaps of that cause."""
    if len(runs) == 2 and row.get("cause") is not None:
        return glance(runs, options)(row)
    if len(runs) != 1 or row.get("index") is None:
        return []
    run = runs[0]
    begin, end = row["start_ns"], row["start_ns"] + row["dur_ns"]
    return [*_stack(run, row, begin, end), *sampled(run, begin, end), _launches(run, row, begin, end)]


def glance(runs: tuple[Trace, ...], options: Options) -> Callable[[Row], list[Section]]:
    """A function that gives the sections of a gap for the pane beside the list: what drained the queue, and the host
    slices in the gap. Of the calls that span the whole gap only the innermost is shown."""

    def of(row: Row) -> list[Section]:
        if len(runs) == 2 and row.get("cause") is not None:
            return [one for number, run in enumerate(runs)
                    for one in _by_operator(run, in_run(row, runs, number), tail(number, runs))]
        if len(runs) != 1 or row.get("index") is None:
            return []
        begin, end = row["start_ns"], row["start_ns"] + row["dur_ns"]
        rows = [("cause", f"{row['cause']}, {units.duration(row['cause_ns'])} of {units.duration(row['dur_ns'])}")]
        for label, key, shown in (("ended by", "after", partial(fit_name, width=60)), ("operator", "op", display),
                                 ("Python line", "frame", short_name), ("drained by", "drained_by", display)):
            if row[key] is not None:
                rows.append((label, display(shown(str(row[key])), 200)))
        return [Section("This gap", tuple(rows)), *_stack(runs[0], row, begin, end, brief=True)]

    return of


def _by_operator(run: Trace, row: Row, of: str) -> list[Section]:
    """Idle time of a device for a cause over the whole recording, by the operator whose launch ended each gap."""
    idle = idle_of(run, run, None) if run.has("kernels.start_ns") else None
    if idle is None:
        return []
    rank = pl.lit(True) if row.get("rank") is None else pl.col("rank") == row["rank"]
    matching = idle.gaps.filter(
        rank, pl.col("cause").cast(pl.String) == row["cause"],
        pl.col("device").cast(pl.String).eq_missing(pl.lit(row["device"], pl.String)))
    sums = matching.select(pl.col("op", "frame").cast(pl.String), "dur_ns").group_by("op", "frame").agg(
        pl.len(), pl.col("dur_ns").sum()).sort("dur_ns", "op", descending=[True, False]).collect(engine="streaming")
    return row_section(f"Next launch after such gaps{of}", sums, (
        text, lambda frame: fit_name(str(frame), 30) if frame else units.MISSING, units.count, units.duration,
    ), ("operator", "Python line", "gaps", "idle"))


def over_gap(run: Trace, row: Row, begin: int, end: int) -> pl.DataFrame | None:
    """Slices between two moments on the thread that launched the activity after a gap: ``name kind start_ns dur_ns
    depth``, and ``within``, the overlap in ns. None if the launch or its thread's slices are not recorded."""
    callers = callers_of(run)
    if callers is None:
        return None
    place = run.kernels.select((pl.col("index") == row["index"]).arg_max()).collect().item()
    call = int(callers.call[place])
    if call < 0:
        return None
    keys = ("rank", "pid", "tid")
    thread = run.host.select(keys).slice(call, 1).collect().row(0)
    same = [pl.col(key).eq_missing(pl.lit(value, pl.Int64)) for key, value in zip(keys, thread, strict=True)]
    last = pl.col("start_ns") + pl.col("dur_ns")
    over = pl.min_horizontal(last, pl.lit(end)) - pl.max_horizontal("start_ns", pl.lit(begin))
    slices = (
        run.host.filter(*same, pl.col("depth").is_not_null(), pl.col("start_ns") < end, last > begin)
        .select("name", "kind", "start_ns", "dur_ns", "depth", within=over).collect(engine="streaming")
    )
    return None if slices.is_empty() else slices


def _stack(run: Trace, row: Row, begin: int, end: int, brief: bool = False) -> list[Section]:
    slices = over_gap(run, row, begin, end)
    if slices is None:
        return []
    all_of_it = slices.filter(pl.col("within") >= end - begin).sort("depth")
    around = all_of_it.head(-1 if brief else -_INNERMOST)  # these only give the context
    slices = slices.join(around.select("depth"), on="depth", how="anti")
    shown = slices.top_k(MOST, by="within").sort("start_ns", "depth")  # each below its caller
    outermost = min(slices["depth"].to_list())
    cells = BRIEF_CELLS if brief else CELLS
    rows = tuple(
        (" " * min(depth - outermost, 4 if brief else 8) + fit_name(str(name), 60),
         _bar(start, start + dur, begin, end, cells), units.duration(within))
        for name, _, start, dur, depth, within in shown.rows()
    )
    capped = f", the longest {MOST} of {units.count(slices.height)}" if slices.height > MOST else ""
    if around.height and not brief:
        capped = f", inside {units.count(around.height)} more calls{capped}"
    titles = ("slice", "over the gap" if brief else "from begin to end of the gap", "in it")
    return [Section(f"The launching thread over the gap{capped}", rows, titles)]


def sampled(run: Trace, begin: int, end: int) -> list[Section]:
    """The functions in the CPU samples between two moments; empty if none were recorded."""
    if not run.has("call_chains"):
        return []
    rows = samples_of(run, begin, end)
    return row_section(f"CPU samples in it: {units.count(int(rows['samples'].sum()))}", rows, (text, text, units.count),
                  ("function", "called from", "samples"))


def _bar(start: int, stop: int, begin: int, end: int, cells: int) -> str:
    """A bar over the gap that marks where a slice ran; cells covered by less than half are light."""
    result = ""
    for cell in range(cells):
        low, high = (begin + (end - begin) * at // cells for at in (cell, cell + 1))
        held = min(stop, high) - max(start, low)
        result += "█" if held > 0 and 2 * held >= high - low else "░" if held > 0 else "·"
    return result


def _launches(run: Trace, row: Row, begin: int, end: int) -> Section:
    matching = run.kernels.filter(
        is_work(), pl.col("device").cast(pl.String).eq_missing(pl.lit(row["device"], pl.String)),
        pl.col("rank").eq_missing(pl.lit(row["rank"], pl.Int64)),
    ).select("index", "name", "start_ns", "dur_ns", "stream")
    before = matching.filter(pl.col("start_ns") < begin).top_k(_AROUND, by="start_ns").collect(engine="streaming")
    after = matching.filter(pl.col("start_ns") >= end).bottom_k(_AROUND, by="start_ns").collect(engine="streaming")
    rows = tuple(
        (f"#{units.count(index)}", fit_name(str(name), 28), units.duration(start), units.duration(dur or 0),
         units.MISSING if stream is None else str(stream))
        for index, name, start, dur, stream in pl.concat([before.sort("start_ns"), after.sort("start_ns")]).rows()
    )
    return Section("Launches around it", rows, ("launch", "kernel", "start", "duration", "stream"))
