"""Several recordings of one process, one after the other, as one Trace: the windows a profiler's schedule wrote.

Each is put where it was on the
process's clock; between them nothing was recorded. A profiler may count its launches anew in each, so the numbers that
tie a call to its activity are moved apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..trace import TABLE_NAMES, Trace
from .ranks import CLOCKED

if TYPE_CHECKING:
    import polars as pl

_TIES = {"kernels": ("correlation", "op_id"), "host": ("correlation", "external_id")}
_ROWS = ("kernels", "host")


def joined(source: str, label: str, traces: Sequence[Trace]) -> Trace:
    """The windows as one Trace, in the order of their times, which begins with the first of them."""
    import polars as pl

    ordered = sorted(traces, key=lambda trace: trace.info.epoch_ns or 0)
    zero = ordered[0].info.epoch_ns or 0
    tables: list[dict[str, pl.LazyFrame]] = []
    before, highest = dict.fromkeys(_ROWS, 0), 0
    for trace in ordered:
        shift = (trace.info.epoch_ns or 0) - zero
        tables.append({name: _placed(name, trace.table(name), shift, before, highest) for name in TABLE_NAMES})
        for name in _ROWS:
            before[name] += trace.table(name).select(pl.len()).collect(engine="streaming").item()
        highest = max(highest, _highest(tables[-1]))
    info = ordered[0].info
    warnings = [warning for trace in ordered for warning in trace.info.warnings]
    gap_warning = f"{len(ordered)} recordings of one process, one after the other: between them nothing was recorded"
    sizes = [trace.info.bytes for trace in ordered if trace.info.bytes is not None]
    info = replace(
        info, source=source, label=label, bytes=sum(sizes) if sizes else None,
        warnings=(gap_warning, *dict.fromkeys(warnings)),
    )
    return Trace(info).with_tables(**{name: pl.concat([window[name] for window in tables]) for name in TABLE_NAMES})


def _placed(name: str, table: pl.LazyFrame, shift: int, before: dict[str, int], highest: int) -> pl.LazyFrame:
    import polars as pl

    columns = table.collect_schema().names()
    ties = [pl.col(column) for column in _TIES.get(name, ()) if highest]
    moved = [pl.when(tie > 0).then(tie + highest).otherwise(tie) for tie in ties]  # 0 and less tie nothing
    if shift and name in CLOCKED:
        moved.append(pl.col(CLOCKED[name]) + shift)
    if before["kernels"]:
        moved += [pl.col(c) + before["kernels"] for c in ("index", "first_index", "last_index") if c in columns]
    if name == "host" and before["host"]:
        moved.append(pl.col("parent") + before["host"])
    if "offset" in columns:  # of which file it is the place could not be told
        moved.append(pl.lit(None, pl.Int64).alias("offset"))
    return table.with_columns(moved) if moved else table


def _highest(tables: dict[str, pl.LazyFrame]) -> int:
    """The largest number that ties a call to its activity."""
    import polars as pl

    highest = [
        tables[name].select(pl.max_horizontal(pl.col(columns).max())).collect(engine="streaming").item()
        for name, columns in _TIES.items()
    ]
    return max((value for value in highest if value is not None), default=0)
