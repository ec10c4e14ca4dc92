"""One view of three or more runs: the rows of all runs one after the other, or one column per run.

Each run answers separately; changes between runs are left to ``history`` and the diff. Sums are per cycle of their own
run if it has cycles, as wherever runs are compared.
"""

from __future__ import annotations

from collections import Counter

import polars as pl
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.column import Column, keys_of
from ..contract.options import Options
from ..contract.view import View
from ..core import device_pairs as devices
from ..core.names.display_names import short_names_of
from ..table.export.state import notes
from ..table.row_ids import ID
from ..table.rows import Rows
from ..table.table import Table, names_of
from ..views import view
from .report import report

ANSWERED = ("overview", "cycles", "kernels", "roofline")
RUN = Column("run", "run", "text", "run of the row", 20, order=0, role="label")
_PER_CYCLE = ("per_cycle_ns", "count_per_cycle")


def labels(runs: tuple[Trace, ...]) -> list[str]:
    """The name of each run: its label, preceded by its number if several runs have the same label."""
    count = Counter(run.info.label for run in runs)
    return [run.info.label if count[run.info.label] == 1 else f"{number} {run.info.label}"
            for number, run in enumerate(runs, 1)]


def many(name: str, runs: tuple[Trace, ...], options: Options) -> Table:
    """All rows of all runs, with a column ``run``; facts per run. Raises CannotAnswer if a run cannot answer."""
    one = view(name)
    tables = [report(name, (run,), options) for run in runs]
    named = labels(runs)
    frames = [
        _with_cycle_sums(one, run, options, table).select(pl.lit(label).alias("run"), pl.all())
        for label, run, table in zip(named, runs, tables, strict=True)
    ]
    # the columns of a run without rows have no dtypes of their own
    frame = pl.concat([one for one in frames if len(one)] or frames[:1], how="diagonal_relaxed")
    added = [column for column in one.pair_columns if column.side == "a" and column.name[:-2] in _PER_CYCLE]
    columns = (RUN, *((ID,) if "id" in frame.columns else ()), *one.columns, *(
        replace(column, name=column.name[:-2], header=f"{column.header[:-2]}/cycle", side="", pairs="sum", order=1)
        for column in added if column.name[:-2] in frame.columns
    ))
    lines = [f"{label}: {line}" for label, table in zip(named, tables, strict=True) for line in notes(table)]
    rows = Rows(frame, named=tables[0].rows.named)
    return Table(
        name, columns, rows, frame.height, notes=tuple(dict.fromkeys(lines)),
        facts={"runs": [{"run": label, **table.all_facts} for label, table in zip(named, tables, strict=True)]},
        summary=tuple(f"{label}: {one.summary[0]}" for label, one in zip(named, tables, strict=True) if one.summary),
        sources=tuple(source for table in tables for source in table.sources), scope=tables[0].scope,
        names=names_of(short_names_of(runs), rows, columns),
    )


def _with_cycle_sums(one: View, run: Trace, options: Options, table: Table) -> pl.DataFrame:
    """The rows, with their sums over whole cycles per cycle if the run has cycles."""
    rows, keys = table.with_ids().shown(), list(keys_of(one.columns))
    if not any(column.per == "cycle" for column in one.pair_columns):
        return rows
    itself = report(one.name, (run, run), options)  # compared with itself, the sums come out per cycle
    if itself.per != "cycle":
        return rows
    sums = itself.frame.select(*keys, *(pl.col(f"{name}_a").alias(name) for name in _PER_CYCLE
                                        if f"{name}_a" in itself.frame.columns))
    return rows.join(sums, on=keys, how="left", nulls_equal=True, maintain_order="left")


def across(table: Table) -> Table:
    """The rows of ``many`` pivoted to one column per run, with the view's main time as the value; without rows, as it
    is."""
    frame = table.shown()
    if frame.is_empty():
        return table
    keys = [one for one in table.columns if one.pairs == "key" and frame[one.name].null_count() < len(frame)]
    keys = keys or [next(column for column in table.columns if column.role == "order")]
    by_name = {column.name: column for column in table.columns}
    main = by_name.get("per_cycle_ns") or next(column for column in table.columns if column.role == "time")
    runs = frame["run"].unique(maintain_order=True).to_list()
    frame, lines = _under_the_same_devices(frame, runs)
    wide = frame.pivot(
        on="run", index=[key.name for key in keys], values=main.name, maintain_order=True,
        aggregate_function="sum" if main.sums else "first")
    if keys[0].role == "order":  # runs may have different cycles
        wide = wide.sort([key.name for key in keys], maintain_order=True)
    columns = (
        *(replace(key, order=0) for key in keys),
        *(replace(main, name=run, header=run, help=f"{main.help}: {run}", order=0) for run in runs),
    )
    rows = Rows(wide.select(column.name for column in columns), named=table.rows.named)
    return replace(table, columns=columns, rows=rows, total_rows=wide.height, row_order=None, kept=None, passed=None,
                   notes=(*table.notes, *lines))


def _under_the_same_devices(frame: pl.DataFrame, runs: list[str]) -> tuple[pl.DataFrame, list[str]]:
    """The rows with every run's devices renamed to the first run's if they were paired in order, and notes on that."""
    if "device" not in frame.columns:
        return frame, []
    names = {run: frame.filter(pl.col("run") == run)["device"].cast(pl.String).unique() for run in runs}
    moved = {run: devices.mapped(names[runs[0]], names[run]) for run in runs[1:]}
    device = pl.coalesce(
        *(pl.when(pl.col("run") == run).then(devices.renamed_devices(pairs)) for run, pairs in moved.items()), "device")
    return frame.with_columns(device), [
        f"{run}: {theirs} is listed as {own}, as in {runs[0]}." for run, pairs in moved.items()
        for theirs, own in pairs.items()]
