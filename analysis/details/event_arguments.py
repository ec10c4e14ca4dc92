"""Recorded arguments of one event that the tables lack (shapes, types, stacks), and the calls around it."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from ...loaders.trace import Trace
from ..contract.sections import MOST, Event, Section
from ..core import units
from ..core.batches import CALLS
from ..core.names.short_name import fit_name
from ..core.text import display

_LABEL = 84  # Most cells of a label: Nsight Compute metrics have long names that differ at the end.
LONGEST = 4000  # Most cells of a value.
_COLUMNS = ("name", "kind", "start_ns", "dur_ns", "rank", "offset")


def event(row: dict[str, Any], side: int) -> Event | None:
    """The event behind a row of ``kernels`` or ``host``; None if its offset in the file is unknown."""
    if row["offset"] is None or row["name"] is None:
        return None
    return Event(side, row["rank"], row["offset"], str(row["name"]))


def rows_of(arguments: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Arguments as (label, value) rows; a stack has one row per frame."""
    rows: list[tuple[str, str]] = []
    for key, value in arguments.items():
        label = display(str(key), _LABEL)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        lines = [text]
        if "stack" in label.lower():
            lines = [line.strip() for line in text.replace(";", "\n").splitlines() if line.strip()] or [text]
        rows += [(label if at == 0 else "", display(line, LONGEST)) for at, line in enumerate(lines)]
    return tuple(rows) or (("none", ""),)


def callers(run: Trace, launch: dict[str, Any], side: int, tail: str = "") -> list[Section]:
    """The call that launched an activity (a row of ``kernels``), the slices around, and the operator's arguments."""
    place = run.kernels.select((pl.col("index") == launch["index"]).arg_max()).collect(engine="streaming").item()
    call_row, operator_row = run.account().activities.select("call", "op").row(place)
    sections = []
    if call_row is not None:
        call = run.host.slice(call_row, 1).select(*_COLUMNS, "pid", "tid").collect()
        sections.append(_listed(f"Launched by{tail}", call))
        around = _around(run, call.row(0, named=True))
        if not around.is_empty():
            sections.append(_listed(f"Around it{tail}, outermost first", around))
    if operator_row is not None:
        operator = run.host.slice(operator_row, 1).select(*_COLUMNS).collect().row(0, named=True)
        sections += _arguments(f"Arguments of {display(str(operator['name']), 60)}{tail}", operator, side)
    return sections


def longest_calls(
    run: Trace, name: str, side: int, tail: str = "", kinds: tuple[str, ...] = ("op",), also: tuple[str, ...] = ()
) -> list[Section]:
    """The longest calls of an operator; for the longest, the slices around it, the slices inside it, and its arguments.
    Other ``kinds`` select a range or an API call; ``also``: further names of the same function."""
    named = pl.col("name").cast(pl.String).is_in([name, *also])
    ordered = (
        run.host.filter(named & pl.col("kind").cast(pl.String).is_in(kinds)).select(*_COLUMNS, "pid", "tid")
        .drop_nulls("dur_ns").sort("dur_ns", "start_ns", descending=[True, False]).head(5).collect(engine="streaming")
    )
    if ordered.is_empty():
        return []
    first = ordered.row(0, named=True)
    sections = [_listed(f"Longest calls{tail}", ordered)]
    if first["start_ns"] is not None:
        around, inside = _others(_around(run, first), first), _inside(run, first)
        if not around.is_empty():
            sections.append(_listed(f"Around the longest{tail}, outermost first", around))
        if not inside.is_empty():
            sections.append(_listed(f"Inside the longest call{tail}, longest first", inside))
    return [*sections, *_arguments(f"Arguments of the longest call{tail}", first, side)]


def _others(slices: pl.DataFrame, call: dict[str, Any]) -> pl.DataFrame:
    """The slices except the call itself."""
    own = (pl.col("start_ns") == call["start_ns"]) & (pl.col("dur_ns") == call["dur_ns"])
    return slices.filter(~(own & (pl.col("name").cast(pl.String) == call["name"])))


def _inside(run: Trace, call: dict[str, Any]) -> pl.DataFrame:
    """The slices of any kind that ran within the call on its thread, longest first."""
    begin, end = call["start_ns"], call["start_ns"] + (call["dur_ns"] or 0)
    within = (pl.col("start_ns") >= begin) & (pl.col("start_ns") + pl.col("dur_ns") <= end)
    inside = run.host.filter(within, *_same(call, "rank", "pid", "tid")).select(*_COLUMNS)
    longest = inside.sort("dur_ns", "start_ns", descending=[True, False]).head(MOST + 1).collect(engine="streaming")
    return _others(longest, call).head(MOST)


def _arguments(title: str, row: dict[str, Any], side: int) -> list[Section]:
    recorded = event(row, side)
    return [Section(title, event=recorded)] if recorded else []


def _around(run: Trace, call: dict[str, Any]) -> pl.DataFrame:
    """The slices that enclose the call on its thread, API calls excluded, outermost first."""
    begin, end = call["start_ns"], call["start_ns"] + (call["dur_ns"] or 0)
    inside = (pl.col("start_ns") <= begin) & (pl.col("start_ns") + pl.col("dur_ns") >= end)
    other = ~pl.col("kind").cast(pl.String).is_in(CALLS)
    return (
        run.host.filter(inside & other, *_same(call, "rank", "pid", "tid")).select(*_COLUMNS)
        .sort("start_ns", "dur_ns", descending=[False, True]).tail(MOST).collect(engine="streaming")
    )


def _same(row: dict[str, Any], *columns: str) -> list[pl.Expr]:
    return [pl.col(column).eq_missing(pl.lit(row[column], pl.Int64)) for column in columns]


def _listed(title: str, calls: pl.DataFrame) -> Section:
    rows = tuple(
        (fit_name(str(name), 60), str(kind), *(units.MISSING if ns is None else units.duration(ns) for ns in span))
        for name, kind, *span in calls.select("name", "kind", "start_ns", "dur_ns").rows()
    )
    return Section(title, rows, ("call", "kind", "start", "duration"))
