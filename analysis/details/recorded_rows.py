"""What Enter shows of a range, a host call, a kind of copies: what it launched, who called it, the longest ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...loaders.trace import Trace
from ..contract.options import Options
from ..contract.sections import MOST, Section
from ..core import units
from ..core.call_tree import HostSlices, nearest
from ..core.names.short_name import fit_name
from ..core.text import display
from ..cycles.scope import scoped
from ..recorded.calls import CALL_KINDS, function
from ..recorded.copies import KINDS, told
from ..recorded.ranges import RANGE_KINDS, activities_in
from .event_arguments import longest_calls
from .launchers import caller_section

Row = dict[str, Any]
Runs = tuple[Trace, ...]


def _sides(runs: Runs, options: Options) -> list[tuple[int, Trace, str]]:
    """Each run limited to the cycle in scope, with its number and what titles say of it."""
    tails = [f" in {'AB'[side]}" if len(runs) > 1 else "" for side in range(len(runs))]
    return [(side, scoped(run, options, "b" if side else "a"), tails[side]) for side, run in enumerate(runs)]


def range_sections(row: Row, runs: Runs, options: Options) -> list[Section]:
    """What was launched inside ranges of the name, and the longest of them."""
    sections: list[Section] = []
    for side, run, tail in _sides(runs, options):
        sections += _launched_inside(run, str(row["name"]), tail)
        sections += longest_calls(run, str(row["name"]), side, tail, RANGE_KINDS)
    return sections


def _launched_inside(run: Trace, name: str, tail: str) -> list[Section]:
    wanted = activities_in(run, name)
    if wanted.is_empty():
        return []
    rows = run.kernels.select("name", "dur_ns").with_row_index("row").collect(engine="streaming")
    found = rows.join(wanted, on="row", how="semi").group_by("name").agg(pl.len(), pl.col("dur_ns").sum()).sort(
        "dur_ns", pl.col("name").cast(pl.String), descending=[True, False])
    told_of = tuple(
        (fit_name(str(one), 48), units.count(count), units.duration(total))
        for one, count, total in found.head(MOST).rows()
    )
    capped = f", {MOST} of {units.count(found.height)}" if found.height > MOST else ""
    return [Section(f"Launched inside{tail}{capped}", told_of, ("kernel", "launches", "total"))]


def call_sections(row: Row, runs: Runs, options: Options) -> list[Section]:
    """Which operators and ranges called it, and the longest calls."""
    sections: list[Section] = []
    for side, run, tail in _sides(runs, options):
        sections += _called_from(run, str(row["name"]), str(row["kind"]), tail)
        names = run.host.select(pl.col("name").unique().cast(pl.String)).collect(engine="streaming")["name"]
        also = tuple(name for name in names.drop_nulls() if function(name) == row["name"] != name)
        sections += longest_calls(run, str(row["name"]), side, tail, CALL_KINDS, also)
    return sections


def _called_from(run: Trace, name: str, kind: str, tail: str) -> list[Section]:
    """The innermost operator or range around each call of the function, most time first."""
    slices = HostSlices(run)
    rows = np.flatnonzero(slices.named(lambda text: function(text) == name, slices.of_kind(kind)))
    if not len(rows):
        return []
    around = nearest(slices.parent, rows, slices.of_kind("op", *RANGE_KINDS))
    frame = pl.DataFrame({"name": slices.names_of(around), "dur_ns": slices.dur[rows].astype(np.int64)})
    found = frame.group_by("name").agg(pl.len(), pl.col("dur_ns").sum()).sort(
        "dur_ns", pl.col("name").cast(pl.String), descending=[True, False], nulls_last=True)
    told_of = tuple(
        ("nothing recorded around it" if one is None else display(str(one), 60), units.count(count),
         units.duration(total))
        for one, count, total in found.head(MOST).rows()
    )
    capped = f", {MOST} of {units.count(found.height)}" if found.height > MOST else ""
    return [Section(f"Called from{tail}{capped}", told_of, ("operator or range", "calls", "total"))]


def copy_sections(row: Row, runs: Runs, options: Options) -> list[Section]:
    """The names under the row, the largest copies, and who made them."""
    sections: list[Section] = []
    for _, run, tail in _sides(runs, options):
        rows = run.kernels.filter(pl.col("kind").is_in(KINDS)).select(
            "index", "name", "kind", "device", "rank", "dur_ns", "bytes").collect(engine="streaming")
        same = (pl.col(key).cast(pl.String).eq_missing(pl.lit(row[key], pl.String))
                for key in ("kind", "direction", "memory", "device"))
        mine = told(rows).filter(*same)
        if mine.is_empty():
            continue
        names = mine.group_by("name").agg(pl.len(), pl.col("dur_ns").sum(), pl.col("bytes").sum()).sort(
            "dur_ns", pl.col("name").cast(pl.String), descending=[True, False])
        capped = f", {MOST} of {units.count(names.height)}" if names.height > MOST else ""
        sections.append(Section(f"As recorded{tail}{capped}", tuple(
            (display(str(name), 60), units.count(count), units.duration(total), units.size(size))
            for name, count, total, size in names.head(MOST).rows()
        ), ("name", "count", "total", "bytes")))
        longest = mine.sort("dur_ns", "index", descending=[True, False], nulls_last=True).head(5)
        sections.append(Section(f"Longest{tail}", tuple(
            (f"#{units.count(index)}", units.MISSING if dur is None else units.duration(dur),
             units.MISSING if size is None else units.size(size))
            for index, dur, size in longest.select("index", "dur_ns", "bytes").rows()
        ), ("launch", "duration", "bytes")))
        sections += caller_section(run, mine.drop_nulls("dur_ns").select("index", "dur_ns"), tail)
    return sections
