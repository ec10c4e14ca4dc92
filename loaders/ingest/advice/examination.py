"""What was made of one input: who reads it, how many rows each table has, what nobody recorded, what is wrong.

For somebody who asks why a view is empty or a figure missing. Nothing of the recording but its names of devices and
tools is told: no command lines, no environment.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from ... import registry
from ...trace import TABLE_NAMES, Trace

_NAMED = 12
"""Of a long list so many are named."""
Facts = Iterator[tuple[str, str]]


def examined(traces: tuple[Trace, ...]) -> Facts:
    """Name and value, one a line. What a file holds, then of every table what there is, then what was dropped."""
    for number, trace in enumerate(traces):
        if len(traces) > 1:
            yield "run", f"{number} of {len(traces)}, {trace.info.label}"
        yield from _about(trace)
        filled = [name for name in TABLE_NAMES if trace.has(name)]
        for name in filled:
            yield name, _table(trace, name)
        if lacking := [name for name in TABLE_NAMES if name not in filled]:
            yield "not in it", ", ".join(lacking)
        unused = trace.info.facts.get("unused_metrics") or []
        if unused:
            yield "no column", f"{len(unused):,} metrics are shown in details only: {_listed(unused)}"
        ignored = trace.info.facts.get("ignored") or {}
        if ignored:
            yield "no table", _listed([f"{count:,} {what}" for what, count in ignored.items()])
        for warning in trace.info.warnings or ("nothing was wrong",):
            yield "found", warning


def _about(trace: Trace) -> Facts:
    info = trace.info
    title = next((loader.title for loader in registry.loaders() if loader.name == info.format), "")
    yield "file", f"{info.source}{f', {info.bytes:,} bytes' if info.bytes is not None else ''}"
    yield "format", f"{info.format}: {title}"
    if info.tool:
        yield "written by", info.tool
    yield "clock", info.clock or "not recorded"
    yield "zero is", f"{info.epoch_ns:,} ns since 1970" if info.epoch_ns is not None else "not known as a wall clock"
    yield "devices", _listed([f"{one.id} ({one.name})" if one.name else one.id for one in info.devices]) or "none named"
    if info.ranks:
        yield "ranks", _listed([str(rank) for rank in info.ranks])
    if info.coverage is not None:
        yield "read", f"{100 * info.coverage:.0f}% of the file"
    if info.serialised:
        yield "replayed", "launches ran one by one: their sum is no wall time"


def _table(trace: Trace, name: str) -> str:
    """How many rows, over what time, and the columns that are empty in all of them."""
    frame = trace.table(name)
    columns = frame.collect_schema().names()
    counted = frame.select(pl.len().alias("_rows"), *(pl.col(column).null_count() for column in columns)).collect()
    rows = int(counted["_rows"][0])
    empty = [column for column in columns if counted[column][0] == rows]
    partly = [f"{column} ({100 * (rows - counted[column][0]) / rows:.0f}%)" for column in columns
              if 0 < counted[column][0] < rows]
    text = f"{rows:,} rows"
    if partly:
        text += f"; in part: {_listed(partly)}"
    return text + (f"; never recorded: {', '.join(empty)}" if empty else "")


def _listed(texts: list[str]) -> str:
    more = f" and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
    return ", ".join(texts[:_NAMED]) + more
