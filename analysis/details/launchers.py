"""From a kernel to its callers and from an operator to its kernels: how often, and how long."""

from __future__ import annotations

import polars as pl

from ...loaders.trace import Trace
from ..contract.sections import MOST, Section
from ..core import units
from ..core.names.short_name import fit_name
from ..core.text import display
from ..kernels.launch_index import CALLERS, ways, with_callers


def caller_section(run: Trace, launches: pl.DataFrame, tail: str) -> list[Section]:
    """Who launched these launches (``index dur_ns``): operator, module and Python line, most time first."""
    rows = with_callers(run, launches.lazy(), "dur_ns")
    if rows is None or all(rows[name].null_count() == rows.height for name in CALLERS):
        return []
    found = ways(rows)
    told = tuple(
        (*(units.MISSING if text is None else display(str(text), 60) for text in (
            op if forward is None else f"{op} ← {forward}", module, frame)), units.count(count), units.duration(total))
        for op, forward, module, frame, count, total in found.head(MOST).rows()
    )
    capped = f", {MOST} of {units.count(found.height)} ways" if found.height > MOST else ""
    return [Section(f"Launched by{tail}{capped}", told, ("operator", "module", "Python line", "launches", "total"))]


def kernel_section(run: Trace, operator: str, tail: str) -> list[Section]:
    """The kernels that calls of one operator launched, most time first."""
    if not run.has("kernels"):
        return []
    rows = with_callers(run, run.kernels.filter(pl.col("kind") != "sync"), "name", "dur_ns")
    if rows is None:
        return []
    mine = rows.filter(pl.col("op").cast(pl.String) == operator)
    found = mine.group_by("name").agg(pl.len(), pl.col("dur_ns").sum()).sort(
        "dur_ns", pl.col("name").cast(pl.String), descending=[True, False])
    if found.is_empty():
        return []
    told = tuple(
        (fit_name(str(name), 48), units.count(count), units.duration(total))
        for name, count, total in found.head(MOST).rows()
    )
    capped = f", {MOST} of {units.count(found.height)}" if found.height > MOST else ""
    return [Section(f"Kernels it launched{tail}{capped}", told, ("kernel", "launches", "total"))]
