"""The details of one row of a view, shown on Enter.

A view names the function that gives its own sections; every view also gets a section with all columns. Values become
display text here, so that the screen only places them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

import polars as pl
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.column import Column
from ..contract.options import SIDES, Options
from ..contract.sections import Detail, Section
from ..contract.view import CannotAnswer, View
from ..core import units
from ..core.distribution import histogram
from ..core.names.display_names import short_names_of, speaking_of
from ..core.text import display
from ..cycles.scope import scoped, scoped_any_cycle
from ..kernels.sources import kernels_of
from ..table.table import Table
from .event_arguments import callers, event, longest_calls
from .glances import device_section, summed_kernels
from .listed import Row, Runs, caller_section, in_run, kernel_section, launch, row_section, sides, span, tail, text
from .measured import launch_measurements

PERCENTILES = (1, 5, 25, 50, 75, 95, 99, 99.9)


def details(view: View, table: Table, position: int, runs: Runs, options: Options) -> Detail:
    """The details of the row at that position of the table as shown."""
    names, row = short_names_of(runs), _row(table, position)
    runs, options = _without_cycle(runs, options)
    with speaking_of(names):
        sections = _refused_or(lambda: view.details(row, runs, options) if view.details else [])
    return Detail((*_named(table, row), *sections, fields(table.columns, row)))


Glance = Callable[[Table, int], Detail]  # (table as shown, position) -> details of that row


def glance_of(view: View, runs: Runs, options: Options) -> Glance:
    """A function that gives the details for the pane beside a list. A view with a ``glance`` scans the whole run once,
    in the background, then answers for any row in about a millisecond. Other views give the details of Enter, without
    arguments that have to be read from the file."""
    names = short_names_of(runs)
    runs, options = _without_cycle(runs, options)
    with speaking_of(names):
        of_row = view.glance(runs, options) if view.glance else None

    def of(table: Table, position: int) -> Detail:
        row = _row(table, position)
        with speaking_of(names):
            if of_row is not None:
                sections = _refused_or(lambda: of_row(row))
            else:
                result = _refused_or(lambda: view.details(row, runs, options) if view.details else [])
                sections = [replace(one, event=None) if one.rows else one for one in result if one.rows or one.shape]
        if not sections:
            whole = fields(table.columns, row)
            sections = [replace(whole, rows=tuple(one for one in whole.rows if one[1] != units.MISSING))]
        return Detail((*_named(table, row), *sections))

    return of


def _row(table: Table, position: int) -> Row:
    return dict(zip((column.name for column in table.columns), table.window(position, position + 1)[0], strict=True))


def _without_cycle(runs: Runs, options: Options) -> tuple[Runs, Options]:
    """The runs restricted to the options' scope except the cycle, and the options that remain to be applied."""
    limited = tuple(scoped_any_cycle(run, options, side) for run, side in zip(runs, SIDES, strict=False))
    return limited, options.without_part()


def _refused_or(sections: Callable[[], list[Section]]) -> list[Section]:
    try:
        return sections()
    except CannotAnswer as error:
        return [Section("Not known", (("why", display(str(error))),))]


def _named(table: Table, row: Row) -> tuple[Section, ...]:
    """The row's name as a title section."""
    texts = [column for column in table.columns if column.unit == "text" and row[column.name] is not None]
    ways = (lambda one: one.role in ("name", "frame", "label"), lambda one: one.pinned, lambda one: one.pairs == "key")
    named = next(filter(None, ([one for one in texts if way(one)] for way in ways)), [])
    return tuple(Section(display(str(row[one.name]))) for one in named[:1])


def fields(columns: tuple[Column, ...], row: Row) -> Section:
    """Every column of the row; of the per-cycle and total sums of a pair, only the ones the list shows."""
    bases = {column.per for column in columns if column.order is not None}
    rows = []
    for column in columns:
        if column.per and column.per not in bases:
            continue
        value = row[column.name]
        text = display(str(value)) if column.unit == "text" and value is not None else units.short(value, column)
        rows.append((column.header, text))
    return Section("This row", tuple(rows))


def _launches_of(row: Row, scope: Trace) -> pl.DataFrame:
    """The launches behind a row of the kernels view."""
    name, kind, device = row.get("name"), row.get("kind"), row.get("device")
    chosen = scope.kernels.filter(pl.col("name").cast(pl.String) == name)
    if kind is not None:
        chosen = chosen.filter(pl.col("kind").cast(pl.String) == kind)
    if device is not None:
        chosen = chosen.filter(pl.col("device").cast(pl.String) == device)
    if row.get("rank") is not None:
        chosen = chosen.filter(pl.col("rank") == row["rank"])
    return chosen.select(
        "index", "start_ns", "dur_ns", "grid", "block", "stream", "occupancy", "tensor", "dram", "rank",
        pl.col("device").cast(pl.String),
    ).drop_nulls("dur_ns").collect(engine="streaming")


def kernel_sections(row: Row, runs: Runs, options: Options) -> list[Section]:
    """Sections on a kernel's launches: distribution, devices, kinds, cycles, the longest ones, and their callers."""
    launches = [_launches_of(in_run(row, runs, number), scope) for number, scope, _ in sides(runs, options)]
    sections: list[Section] = []
    if any(map(len, launches)):
        spans = [some["dur_ns"].cast(pl.Float64).to_numpy() for some in launches]
        sections += [Section("Latency", shape=histogram(*spans)), _percentiles(launches)]
    for number, (run, some) in enumerate(zip(runs, launches, strict=True)):
        if some.is_empty():
            continue
        ending = tail(number, runs)
        ordered = some.sort("dur_ns").partition_by("rank", "device", as_dict=True)
        spans_on = {(at[0], at[1]): one["dur_ns"].to_numpy() for at, one in ordered.items()}
        sections += [
            *device_section(spans_on, ending), *_groups(some, ending, options),
            *_by_cycle(some, run, options, ending),
            *_longest(some, ending), *caller_section(run, some, ending),
            *_longest_callers(some, run, number, ending),
        ]
    return sections


def _percentiles(launches: Sequence[pl.DataFrame]) -> Section:
    """Percentiles by nearest rank of one run, or of both side by side; percentiles that equal the minimum or maximum
    because there are few launches are left out."""
    ordered = [(side, some["dur_ns"].sort()) for side, some in zip("AB", launches, strict=False) if len(some)]
    many = max((len(one) for _, one in ordered), default=0)
    rows = [("launches", *(units.count(len(one)) for _, one in ordered)),
            ("min", *(units.duration(one[0]) for _, one in ordered))]
    rows += [(f"p{p:g}", *(units.duration(one[ceil(p / 100 * len(one)) - 1]) for _, one in ordered))
             for p in PERCENTILES if p == 50 or 1 < ceil(p / 100 * many) < many]
    rows.append(("max", *(units.duration(one[-1]) for _, one in ordered)))
    return Section("Percentiles", tuple(rows), ("", *(side for side, _ in ordered)) if len(launches) > 1 else ())


def _groups(launches: pl.DataFrame, tail: str, options: Options) -> list[Section]:
    """The clearly different kinds of a kernel's launches, by grid or by duration."""
    from ..kernels.launch_groups import kinds

    groups = kinds(launches, options.thresholds)
    if groups.height < 2:
        return []
    titles = ("kind", "launches", "total", "p50", "tensor", "DRAM", "bound")
    return row_section(
        f"{groups.height} kinds of launches{tail}",
        groups.select("label", "count", "total_ns", "p50_ns", "tensor", "dram", "bound"),
        (display, units.count, span, span, _share, _share, lambda bound: bound or units.MISSING), titles)


def _share(value: float | None) -> str:
    return units.MISSING if value is None or value != value else units.percent(100 * value, places=0)


def _by_cycle(launches: pl.DataFrame, run: Trace, options: Options, tail: str) -> list[Section]:
    """Launches and time per cycle."""
    from ..cycles.assignment import in_cycles
    from ..cycles.detection import find_cycles

    cycles = find_cycles(run, options)
    if cycles.frame.is_empty():
        return []
    wanted = launches["index"]
    inside = in_cycles(run, cycles.frame, cycles.device_time).filter(pl.col("index").is_in(wanted.implode()))
    sums = inside.group_by("cycle").agg(pl.len(), pl.col("dur_ns").sum()).sort("cycle").collect(engine="streaming")
    return row_section(f"By cycle{tail}", sums, (str, units.count, span), ("cycle", "launches", "total"), " cycles")


def _longest(launches: pl.DataFrame, tail: str) -> list[Section]:
    top = launches.sort("dur_ns", "index", descending=[True, False]).head(5)
    return row_section(f"Longest{tail}", top.select("index", "start_ns", "dur_ns", "grid"), (launch, span, span, text),
                  ("launch", "start", "duration", "grid"))


def _longest_callers(launches: pl.DataFrame, run: Trace, side: int, tail: str) -> list[Section]:
    """Callers, arguments and measurements of the longest launch."""
    index = launches.sort("dur_ns", "index", descending=[True, False])["index"][0]
    same_launch = run.kernels.filter(pl.col("index") == index).collect()
    if not same_launch.height:
        return []
    longest = same_launch.row(0, named=True)
    sections = callers(run, longest, side, f"{tail} (the longest)")
    return [*sections, *launch_measurements(run, longest["index"], f"{tail} (the longest)")]


def launch_sections(row: Row, runs: Runs, options: Options) -> list[Section]:
    """All recorded fields of the launch, its callers, measurements and arguments, where known."""
    run = runs[0]
    launches = run.kernels.filter(pl.col("index") == row["index"]).collect()
    if launches.is_empty():
        return []
    values = launches.row(0, named=True)
    rows = [(name, display(_plain(value))) for name, value in values.items() if value is not None]
    sections = [Section("As recorded", tuple(rows)), *callers(run, values, 0)]
    sections += launch_measurements(run, row["index"])
    if (own := event(values, 0)) is not None:
        sections.append(Section("Arguments", event=own))
    return sections


def _plain(value: object) -> str:
    """Floats with seven significant digits, the precision of the tables."""
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def operator_sections(row: Row, runs: Runs, options: Options) -> list[Section]:
    """The kernels an operator launched, its longest calls, and the arguments of the longest."""
    sections = []
    for number, scope, ending in sides(runs, options):
        sections += kernel_section(scope, str(row["name"]), ending)
        sections += longest_calls(scope, str(row["name"]), number, ending)
    return sections


def cycle_sections(row: Row, runs: Runs, options: Options) -> list[Section]:
    """The kernels with the most time in the cycle."""
    sections: list[Section] = []
    for side, run in zip("ab", runs, strict=False):
        cycle = row.get(f"cycle_{side}", row.get("cycle") if side == "a" else None)
        if cycle is None:
            continue
        rank = row.get(f"rank_{side}", row.get("rank"))
        inside = scoped(run, Options(cycle=int(cycle), rank=rank, cycle_anchor=options.cycle_anchor))
        kernels = kernels_of(inside)
        of_rank = f" of rank {rank}" if rank is not None and len(run.info.ranks) > 1 else ""
        title = f"Cycle {cycle}{of_rank}" + (f" of {side.upper()}" if len(runs) > 1 else "") + ": most time"
        nothing = Section(title, (("no device activity was recorded in it", "", ""),), ("kernel", "launches", "total"))
        sections += [nothing] if kernels is None else summed_kernels(title, kernels.frame.sort(
            "total_ns", descending=True, maintain_order=True).select(
                pl.col("name").cast(pl.String), pl.col("count").fill_null(0), "total_ns")) or [nothing]
    return sections
