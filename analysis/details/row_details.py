"""Everything known about one row of a view: what Enter shows.

A view names the function here that gives its own sections; every view has all its columns. Values become display text
here, so that the screen only places them.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import polars as pl

from ...loaders.trace import Trace
from ..contract.column import Column
from ..contract.options import SIDES, Options
from ..contract.sections import MOST, Detail, Section
from ..contract.view import CannotAnswer, View
from ..core import units
from ..core.distribution import histogram
from ..core.names.display_names import of_runs, speaking_of
from ..core.text import display
from ..cycles.scope import part, scoped
from ..kernels.sources import kernels_of
from ..table.table import Table
from .event_arguments import callers, event, longest_calls
from .launchers import caller_section, kernel_section

PERCENTILES = (1, 5, 25, 50, 75, 95, 99, 99.9)

Row = dict[str, Any]
Runs = tuple[Trace, ...]


def details(view: View, table: Table, position: int, runs: Runs, options: Options) -> Detail:
    """Everything about the row at that position of the table as shown."""
    of_activities = of_runs(runs)
    runs = tuple(part(run, options, side) for run, side in zip(runs, SIDES, strict=False))
    options = options.without_part()
    values = table.window(position, position + 1)[0]
    row = {column.name: value for column, value in zip(table.columns, values, strict=True)}
    try:
        with speaking_of(of_activities):
            special = view.details(row, runs, options) if view.details else []
    except CannotAnswer as error:
        special = [Section("Not known", (("why", display(str(error))),))]
    named = (row[column.name] for column in table.columns if column.role in ("name", "label"))
    name = next((value for value in named if value is not None), None)
    whole = (Section(display(str(name)), ()),) if name is not None else ()
    return Detail((*whole, *special, fields(table.columns, row)))


def fields(columns: tuple[Column, ...], row: Row) -> Section:
    """Every column of the row; of sums that two runs are compared in, those that are listed."""
    listed = {column.per for column in columns if column.order is not None}
    rows = []
    for column in columns:
        if column.per and column.per not in listed:
            continue
        value = row[column.name]
        text = display(str(value)) if column.unit == "text" and value is not None else units.short(value, column)
        rows.append((column.header, text))
    return Section("This row", tuple(rows))


def _launches_of(row: Row, run: Trace, options: Options, side: str) -> pl.DataFrame:
    """The launches behind a row of the kernels view, with what they are told apart by."""
    scope = scoped(run, options, "a" if side == "a" else "b")
    name, kind, device = row.get("name"), row.get("kind"), row.get("device")
    chosen = scope.kernels.filter(pl.col("name").cast(pl.String) == name)
    if kind is not None:
        chosen = chosen.filter(pl.col("kind").cast(pl.String) == kind)
    if device is not None:
        chosen = chosen.filter(pl.col("device").cast(pl.String) == device)
    if row.get("rank") is not None:
        chosen = chosen.filter(pl.col("rank") == row["rank"])
    return chosen.select(
        "index", "start_ns", "dur_ns", "grid", "block", "stream", "occupancy", "tensor", "dram"
    ).drop_nulls("dur_ns").collect(engine="streaming")


def kernel_sections(row: Row, runs: Runs, options: Options) -> list[Section]:
    """The launches behind the name: their distribution, kinds, cycles, the longest and who launched it."""
    found = {side: _launches_of(row, run, options, side) for side, run in zip("ab", runs, strict=False)}
    sections: list[Section] = []
    if any(len(launches) for launches in found.values()):
        spans = [launches["dur_ns"].cast(pl.Float64).to_numpy() for launches in found.values()]
        sections.append(Section("Latencies", shape=histogram(*spans)))
    for side, run in zip("ab", runs, strict=False):
        launches = found[side]
        if launches.is_empty():
            continue
        tail = f" in {side.upper()}" if len(runs) > 1 else ""
        sections += [
            _percentiles(launches, tail), *_groups(launches, tail, options), *_by_cycle(launches, run, options, tail),
            _longest(launches, tail), *caller_section(run, launches, tail),
            *_longest_callers(launches, run, "ab".index(side), tail),
        ]
    return sections


def _percentiles(launches: pl.DataFrame, tail: str) -> Section:
    ordered = launches["dur_ns"].sort()
    count = len(ordered)
    rows = [("min", units.duration(ordered[0]))]
    rows += [(f"p{p:g}", units.duration(ordered[ceil(p / 100 * count) - 1])) for p in PERCENTILES]  # nearest rank
    rows.append(("max", units.duration(ordered[-1])))
    return Section(f"Latency{tail}, {units.count(len(ordered))} launches", tuple(rows))


def _groups(launches: pl.DataFrame, tail: str, options: Options) -> list[Section]:
    """The clearly different kinds of launches behind the name, by grid or by duration."""
    from ..kernels.launch_groups import kinds

    groups = kinds(launches, options.thresholds)
    if groups.height < 2:
        return []
    rows = [
        (display(row["label"]), units.count(row["count"]), units.duration(row["total_ns"]),
         units.duration(row["p50_ns"]), _share(row["tensor"]), _share(row["dram"]), row["bound"] or units.MISSING)
        for row in groups.head(MOST).to_dicts()
    ]
    capped = f", {MOST} of {groups.height}" if groups.height > MOST else ""
    titles = ("kind", "launches", "total", "p50", "tensor", "DRAM", "bound")
    return [Section(f"{groups.height} kinds of launches{tail}{capped}", tuple(rows), titles)]


def _share(value: float | None) -> str:
    return units.MISSING if value is None or value != value else units.percent(100 * value, places=0)


def _by_cycle(launches: pl.DataFrame, run: Trace, options: Options, tail: str) -> list[Section]:
    """In which cycles the launches were."""
    from ..cycles.assignment import in_cycles
    from ..cycles.detection import find_cycles

    cycles = find_cycles(run, options)
    if cycles.frame.is_empty():
        return []
    wanted = launches["index"]
    inside = in_cycles(run, cycles.frame, cycles.device_time).filter(pl.col("index").is_in(wanted.implode()))
    found = (
        inside.group_by("cycle").agg(pl.len().alias("n"), pl.col("dur_ns").sum().alias("total")).sort("cycle")
        .collect(engine="streaming")
    )
    if found.is_empty():
        return []
    rows = [(str(cycle), units.count(n), units.duration(total)) for cycle, n, total in found.head(MOST).rows()]
    capped = f", {MOST} of {found.height} cycles" if found.height > MOST else ""
    return [Section(f"By cycle{tail}{capped}", tuple(rows), ("cycle", "launches", "total"))]


def _longest(launches: pl.DataFrame, tail: str) -> Section:
    top = launches.sort("dur_ns", "index", descending=[True, False]).head(5)
    rows = [
        (f"#{units.count(index)}", units.MISSING if start is None else units.duration(start), units.duration(dur),
         display(str(grid)) if grid is not None else units.MISSING)
        for index, start, dur, grid in top.select("index", "start_ns", "dur_ns", pl.col("grid").cast(pl.String)).rows()
    ]
    return Section(f"Longest{tail}", tuple(rows), ("launch", "start", "duration", "grid"))


def _longest_callers(launches: pl.DataFrame, run: Trace, side: int, tail: str) -> list[Section]:
    """Who launched the longest one, and with what."""
    index = launches.sort("dur_ns", "index", descending=[True, False])["index"][0]
    found = run.kernels.filter(pl.col("index") == index).head(1).collect()
    if not found.height:
        return []
    launch = found.row(0, named=True)
    sections = callers(run, launch, side, f"{tail} (the longest)")
    if run.info.serialised and (own := event(launch, side)) is not None:
        sections.append(Section(f"All that was measured{tail} (the longest)", event=own))
    return sections


def launch_sections(row: Row, runs: Runs, options: Options) -> list[Section]:
    """All recorded fields of the launch, and the operator that launched it where that is known."""
    run = runs[0]
    found = run.kernels.filter(pl.col("index") == row["index"]).head(1).collect()
    if found.is_empty():
        return []
    values = found.row(0, named=True)
    rows = [(name, display(_plain(value))) for name, value in values.items() if value is not None]
    sections = [Section("As recorded", tuple(rows)), *callers(run, values, 0)]
    if (own := event(values, 0)) is not None:
        sections.append(Section("Arguments", event=own))
    return sections


def _plain(value: object) -> str:
    """Fractions have seven digits in the tables."""
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def operator_sections(row: Row, runs: Runs, options: Options) -> list[Section]:
    """The longest calls, and what the longest was given."""
    found = []
    for side, run in enumerate(runs):
        scope = scoped(run, options, "b" if side else "a")
        found += kernel_section(scope, str(row["name"]), _tail(side, runs))
        found += longest_calls(scope, str(row["name"]), side, _tail(side, runs))
    return found


def _tail(side: int, runs: Runs) -> str:
    return f" in {'AB'[side]}" if len(runs) > 1 else ""


def cycle_sections(row: Row, runs: Runs, options: Options) -> list[Section]:
    """The kernels that take most of the cycle."""
    sections: list[Section] = []
    for side, run in zip("ab", runs, strict=False):
        cycle = row.get(f"cycle_{side}", row.get("cycle") if side == "a" else None)
        if cycle is None:
            continue
        rank = row.get(f"rank_{side}", row.get("rank"))
        inside = scoped(run, Options(cycle=int(cycle), rank=rank, cycle_anchor=options.cycle_anchor))
        kernels = kernels_of(inside)
        rows: tuple[tuple[str, ...], ...] = ()
        if kernels is not None:
            top = kernels.frame.sort("total_ns", descending=True, maintain_order=True).head(MOST)
            rows = tuple(
                (display(str(name)), units.count(n or 0), units.duration(total))
                for name, n, total in top.select(pl.col("name").cast(pl.String), "count", "total_ns").rows()
            )
        of_rank = f" of rank {rank}" if rank is not None and len(run.info.ranks) > 1 else ""
        title = f"Cycle {cycle}{of_rank}" + (f" of {side.upper()}" if len(runs) > 1 else "") + ": most time"
        sections.append(Section(title, rows or (("no device activity was recorded in it", "", ""),),
                                ("kernel", "launches", "total")))
    return sections

