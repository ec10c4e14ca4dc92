"""Beside the operators: the kernels that the one under the cursor launched, and from where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from ....loaders.trace import Trace
from ...contract.options import SIDES, Options
from ...contract.sections import MOST, Section
from ...core import units
from ...core.names.short_name import fit_name, short_name
from ...core.text import display
from ...cycles.scope import scoped
from ...kernels.launch_index import with_callers

_NOTHING, _LINES = pl.DataFrame(), ("from", "count", "total")


def glance(runs: tuple[Trace, ...], options: Options) -> Callable[[dict[str, Any]], list[Section]]:
    """What gives the sections of a row of the operators, of one run or two."""
    sides = [_grouped(run, scoped(run, options, side)) for run, side in zip(runs, SIDES, strict=False)]

    def of(row: dict[str, Any]) -> list[Section]:
        made = []
        for side, (kernels, lines) in zip("AB", sides, strict=False):
            tail, operator = f" in {side}" if len(runs) > 1 else "", str(row.get("op") or row["name"])
            made += kernels_section(f"Kernels it launched{tail}", kernels.get((operator,), _NOTHING))
            made += _section(f"Called from{tail}", lines.get((operator,), _NOTHING), _LINES, short_name)
        return made

    return of


Grouped = dict[tuple[Any, ...], pl.DataFrame]


def _grouped(run: Trace, piece: Trace) -> tuple[Grouped, Grouped]:
    """For each operator its kernels, and the Python lines (else modules) it was called from, with sums."""
    work = piece.kernels.filter(pl.col("kind") != "sync")
    rows = with_callers(run, work, "name", "dur_ns") if piece.has("kernels") else None
    if rows is None:
        return {}, {}
    rows = rows.with_columns(pl.coalesce(pl.col("frame", "module").cast(pl.String)).alias("where"))
    return _by(rows, "name"), _by(rows.drop_nulls("where"), "where")


def _by(rows: pl.DataFrame, key: str) -> Grouped:
    found = rows.drop_nulls("op").group_by("op", key).agg(
        count=pl.len(), total_ns=pl.col("dur_ns").sum()
    ).with_columns(pl.col("op", key).cast(pl.String)).sort(
        "total_ns", "count", key, descending=[True, True, False])
    return found.partition_by("op", as_dict=True, include_key=False, maintain_order=True)


def kernels_section(title: str, found: pl.DataFrame) -> list[Section]:
    """Kernels with their launches and time, most time first; nothing where there are none."""
    return _section(title, found, ("kernel", "count", "total"), lambda name: fit_name(name, 60))


def _section(title: str, found: pl.DataFrame, columns: tuple[str, ...], shown: Callable[[str], str]) -> list[Section]:
    if found.is_empty():
        return []
    rows = tuple(
        (display(shown(text), 60), units.count(count), units.duration(total))
        for text, count, total in found.head(MOST).rows()
    )
    capped = f", {MOST} of {units.count(found.height)}" if found.height > MOST else ""
    return [Section(title + capped, rows, columns)]
