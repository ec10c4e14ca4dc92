"""Beside the operators: the kernels that the one under the cursor launched, and from where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from ....loaders.trace import Trace
from ...core import units
from ...core.names.short_name import fit_name
from ...core.options import SIDES, Options
from ...core.text import display
from ...cycles.scope import scoped
from ...kernels.launchers import with_callers
from ..sections import MOST, Section

_KERNELS, _LINES = ("kernel", "launches", "total"), ("module", "Python line", "launches", "total")


def glance(runs: tuple[Trace, ...], options: Options) -> Callable[[dict[str, Any]], list[Section]]:
    """What gives the sections of a row of the operators, of one run or two."""
    sides = [_grouped(run, scoped(run, options, side)) for run, side in zip(runs, SIDES, strict=False)]

    def of(row: dict[str, Any]) -> list[Section]:
        made = []
        for side, (kernels, lines) in zip("AB", sides, strict=False):
            tail, operator = f" in {side}" if len(runs) > 1 else "", str(row.get("op") or row["name"])
            made += _section(f"Kernels it launched{tail}", kernels.get((operator,)), _KERNELS)
            made += _section(f"Called from{tail}", lines.get((operator,)), _LINES)
        return made

    return of


Grouped = dict[tuple[Any, ...], pl.DataFrame]


def _grouped(run: Trace, piece: Trace) -> tuple[Grouped, Grouped]:
    """For each operator its kernels, and the modules and Python lines it was called from: count and total of each."""
    work = piece.kernels.filter(pl.col("kind") != "sync")
    rows = with_callers(run, work, "name", "dur_ns") if piece.has("kernels") else None
    if rows is None:
        return {}, {}
    return _by(rows, "name"), _by(rows, "module", "frame")


def _by(rows: pl.DataFrame, *keys: str) -> Grouped:
    found = rows.drop_nulls("op").group_by("op", *keys).agg(
        count=pl.len(), total_ns=pl.col("dur_ns").sum()
    ).with_columns(pl.col("op", *keys).cast(pl.String)).sort(
        "total_ns", "count", *keys, descending=[True, True, *[False] * len(keys)])
    return found.partition_by("op", as_dict=True, include_key=False, maintain_order=True)


def _section(title: str, found: pl.DataFrame | None, columns: tuple[str, ...]) -> list[Section]:
    if found is None:
        return []
    shown = fit_name if columns is _KERNELS else display
    rows = tuple(
        (*(units.MISSING if text is None else shown(str(text), 60) for text in texts), units.count(count),
         units.duration(total))
        for *texts, count, total in found.head(MOST).rows()
    )
    capped = f", {MOST} of {units.count(found.height)}" if found.height > MOST else ""
    return [Section(title + capped, rows, columns)]
