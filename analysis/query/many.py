"""One view of three runs or more: a row of each run after the other, or one column per run.

Each run answers for itself; nothing is said of what changed, which is what ``history`` and the diff are for. Sums are
per cycle of the run they are of where it has cycles, as everywhere that runs stand beside each other.
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
from ..core.names.display_names import of_runs
from ..table.export.state import notes
from ..table.row_ids import ID
from ..table.rows import Rows
from ..table.table import Table, names_of
from ..views import view
from .report import report

ANSWERED = ("overview", "cycles", "kernels", "roofline")
RUN = Column("run", "run", "text", "the run the row is of", 20, order=0, role="label")
_PER_CYCLE = ("per_cycle_ns", "count_per_cycle")


def labels(runs: tuple[Trace, ...]) -> list[str]:
    """What each run is called: its label, with its number where several have that."""
    count = Counter(run.info.label for run in runs)
    return [run.info.label if count[run.info.label] == 1 else f"{number} {run.info.label}"
            for number, run in enumerate(runs, 1)]


def many(name: str, runs: tuple[Trace, ...], options: Options) -> Table:
    """All rows of all runs under the column ``run``; facts by run. Raises CannotAnswer where one cannot be asked so."""
    one = view(name)
    tables = [report(name, (run,), options) for run in runs]
    named = labels(runs)
    frames = [
        _with_cycle_sums(one, run, options, table).select(pl.lit(label).alias("run"), pl.all())
        for label, run, table in zip(named, runs, tables, strict=True)
    ]
    frame = pl.concat(frames, how="diagonal_relaxed")
    added = [column for column in one.pair_columns if column.side == "a" and column.name[:-2] in _PER_CYCLE]
    columns = (RUN, *((ID,) if "id" in frame.columns else ()), *one.columns, *(
        replace(column, name=column.name[:-2], header=f"{column.header[:-2]}/cycle", side="", pairs="sum", order=1)
        for column in added if column.name[:-2] in frame.columns
    ))
    said = [f"{label}: {line}" for label, table in zip(named, tables, strict=True) for line in notes(table)]
    rows = Rows(frame, named=tables[0].rows.named)
    return Table(
        name, columns, rows, frame.height, notes=tuple(dict.fromkeys(said)),
        facts={"runs": [{"run": label, **table.all_facts} for label, table in zip(named, tables, strict=True)]},
        summary=tuple(f"{label}: {one.summary[0]}" for label, one in zip(named, tables, strict=True) if one.summary),
        sources=tuple(source for table in tables for source in table.sources), scope=tables[0].scope,
        names=names_of(of_runs(runs), rows, columns),
    )


def _with_cycle_sums(one: View, run: Trace, options: Options, table: Table) -> pl.DataFrame:
    """The rows, with what belongs to the whole cycles per cycle where the run has some."""
    rows, keys = table.with_ids().shown(), list(keys_of(one.columns))
    if not any(column.per == "cycle" for column in one.pair_columns):
        return rows
    itself = report(one.name, (run, run), options)  # beside itself, as beside any other
    if itself.per != "cycle":
        return rows
    sums = itself.frame.select(*keys, *(pl.col(f"{name}_a").alias(name) for name in _PER_CYCLE
                                        if f"{name}_a" in itself.frame.columns))
    return rows.join(sums, on=keys, how="left", nulls_equal=True, maintain_order="left")


def across(table: Table) -> Table:
    """The rows of ``many`` with one column for each run: the time that the view is about."""
    frame = table.shown()
    keys = [one for one in table.columns if one.pairs == "key" and frame[one.name].null_count() < len(frame)]
    keys = keys or [next(column for column in table.columns if column.role == "order")]
    by_name = {column.name: column for column in table.columns}
    main = by_name.get("per_cycle_ns") or next(column for column in table.columns if column.role == "time")
    runs = frame["run"].unique(maintain_order=True).to_list()
    frame, said = _under_the_same_devices(frame, runs)
    wide = frame.pivot(
        on="run", index=[key.name for key in keys], values=main.name, maintain_order=True,
        aggregate_function="sum" if main.sums else "first")
    if keys[0].role == "order":  # cycles of one run may not be those of the others
        wide = wide.sort([key.name for key in keys], maintain_order=True)
    columns = (
        *(replace(key, order=0) for key in keys),
        *(replace(main, name=run, header=run, help=f"{main.help}: {run}", order=0) for run in runs),
    )
    rows = Rows(wide.select(column.name for column in columns), named=table.rows.named)
    return replace(table, columns=columns, rows=rows, total_rows=wide.height, order=None, kept=None, passed=None,
                   notes=(*table.notes, *said))


def _under_the_same_devices(frame: pl.DataFrame, runs: list[str]) -> tuple[pl.DataFrame, list[str]]:
    """The rows with the devices of every run under the names of the first's where they used different ones, and notes
    that say so."""
    if "device" not in frame.columns:
        return frame, []
    names = {run: frame.filter(pl.col("run") == run)["device"].cast(pl.String).unique() for run in runs}
    moved = {run: devices.mapped(names[runs[0]], names[run]) for run in runs[1:]}
    device = pl.coalesce(*(pl.when(pl.col("run") == run).then(devices.under(pairs)) for run, pairs in moved.items()),
                         "device")
    return frame.with_columns(device), [
        f"{run}: {theirs} stands under {mine} of {runs[0]}." for run, pairs in moved.items()
        for theirs, mine in pairs.items()]
