"""Building blocks for sections of details: capped row lists, and a title per run of a pair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import polars as pl

from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..contract.options import SIDES, Options
from ..contract.sections import MOST, Section
from ..core import units
from ..core.device_pairs import mapped
from ..core.names.short_name import fit_name
from ..core.text import display
from ..cycles.scope import scoped
from ..kernels.launch_index import CALLERS, ways, with_callers

Row = dict[str, Any]
Runs = tuple[Trace, ...]
Cell = Callable[[Any], str]


def sides(runs: Runs, options: Options) -> Iterator[tuple[int, Trace, str]]:
    """Each run restricted to the scope, with its number and title suffix: ' · B', or '' for a single run."""
    for number, (run, side) in enumerate(zip(runs, SIDES, strict=False)):
        yield number, scoped(run, options, side), tail(number, runs)


def in_run(row: Row, runs: Runs, number: int) -> Row:
    """The row with its device as named in that run; a row of two runs has A's name."""
    if not number or row.get("device") is None:
        return row
    names = mapped(*([one.id for one in run.info.devices] for run in runs))
    return row | {"device": next((b for b, a in names.items() if a == row["device"]), row["device"])}


def tail(number: int, runs: Sequence[object]) -> str:
    """Title suffix of one run's sections: ' · A', ' · B', or '' for a single run."""
    return f" · {'AB'[number]}" if len(runs) > 1 else ""


def row_section(
    title: str, rows: pl.DataFrame, cells: Sequence[Cell], headers: tuple[str, ...], of: str = ""
) -> list[Section]:
    """Section of the first ``MOST`` rows, one formatter per column (``cells``); ``of``: their noun. [] without rows."""
    if rows.is_empty():
        return []
    texts = tuple(
        tuple(cell(value) for cell, value in zip(cells, row, strict=True)) for row in rows.head(MOST).rows()
    )
    capped = f", {MOST} of {units.count(rows.height)}{of}" if rows.height > MOST else ""
    return [Section(f"{title}{capped}", texts, headers)]


def sums_by(rows: pl.DataFrame, key: str, *more: str) -> pl.DataFrame:
    """Per ``key``: number of rows, summed ``dur_ns`` and ``more``; most time first."""
    return rows.group_by(key).agg(pl.len(), pl.col("dur_ns", *more).sum()).sort(
        "dur_ns", pl.col(key).cast(pl.String), descending=[True, False], nulls_last=True)


def text(value: object) -> str:
    """A recorded text in at most 60 cells; a dash for None."""
    return units.MISSING if value is None else display(str(value), 60)


def place(frame: str | None) -> str:
    """A Python line or module in at most 60 cells; a dash for None."""
    return units.MISSING if frame is None else fit_name(frame, 60)


def kernel(name: object) -> str:
    """A kernel's name in at most 48 cells."""
    return fit_name(str(name), 48)


def span(ns: float | None) -> str:
    """A duration; a dash for None."""
    return units.MISSING if ns is None else units.duration(ns)


def launch(index: int) -> str:
    """A launch index as text."""
    return f"#{units.count(index)}"


def caller_section(run: Trace, launches: pl.DataFrame, tail: str) -> list[Section]:
    """The callers of these launches (``index dur_ns``): operator, module and Python line, most time first."""
    rows = with_callers(run, launches.lazy(), "dur_ns")
    if rows is None or all(rows[name].null_count() == rows.height for name in CALLERS):
        return []
    callers = ways(rows).select(_operator(), "module", "frame", "count", "total_ns")
    headers = ("operator", "module", "Python line", "launches", "total")
    return row_section(f"Launched by{tail}", callers, (text, place, place, units.count, span), headers, " ways")


def brief_caller_section(callers: pl.DataFrame, tail: str = "") -> list[Section]:
    """Short form of ``caller_section``: operators and the Python lines (else modules) they came from. ``callers`` has
    ``CALLERS``, ``count`` and ``total_ns``."""
    if callers.is_empty():
        return []
    came = callers.group_by("op", "op_forward", pl.coalesce("frame", "module").alias("from"), maintain_order=True).agg(
        pl.col("count").sum(), pl.col("total_ns").sum()
    ).sort("total_ns", "count", descending=True, maintain_order=True)
    return row_section(
        f"Launched by{tail}", came.select(_operator(), "from", "count", "total_ns"),
        (text, place, units.count, span),
        ("operator", "from", "count", "total"), " ways")


def _operator() -> pl.Expr:
    """The operator; a backward operator with its forward operator."""
    backward = pl.format("{} ← {}", pl.col("op").cast(pl.String), pl.col("op_forward").cast(pl.String))
    return pl.coalesce(backward, pl.col("op").cast(pl.String)).alias("op")


def kernel_section(run: Trace, operator: str, tail: str) -> list[Section]:
    """The kernels that calls of one operator launched, most time first."""
    launches = run.kernels.filter(is_work())
    rows = with_callers(run, launches, "name", "dur_ns") if run.has("kernels") else None
    if rows is None:
        return []
    matching = rows.filter(pl.col("op").cast(pl.String) == operator)
    headers = ("kernel", "launches", "total")
    return row_section(f"Kernels it launched{tail}", sums_by(matching, "name"), (kernel, units.count, span), headers)
