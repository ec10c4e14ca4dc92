"""Metrics: statistics of each counter of each device over the run, with plots of those that vary."""

from __future__ import annotations

import polars as pl
from msgspec import to_builtins

from ...loaders.trace import Trace
from ..contract.column import Column, side_by_side
from ..contract.options import Options
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core import metrics, units
from ..core.device_pairs import mapped, note, renamed_devices
from ..metrics.findings import counter_findings
from ..metrics.picture import key_of, picture, telling
from ..metrics.series import moved, offsets, summarised
from ..table.sides import paired_rows
from ..timeline.lanes import cycle_marks

_PICTURE = 110  # Width of the plots in an export, in cells.
_VALUES = ("min", "mean", "p50", "max")
_MEANINGS = {"min": "smallest sample", "mean": "mean of the samples", "p50": "median sample, nearest rank",
             "max": "largest sample"}  # fmt: skip

COLUMNS = (
    Column("metric", "metric", "text", "counter as recorded", width=26, order=0, elastic=True, pinned=True,
           role="label", pairs="key"),
    Column("device", "device", "text", "device it was sampled on; empty where the input names none", width=8, order=0,
           role="where", pairs="key"),
    Column("unit", "unit", "text", "unit of the values", width=5, order=9, role="where", pairs="key"),
    Column("samples", "samples", "count", "number of samples with a value", width=8, order=2, role="count",
           pairs="side"),
    *(Column(f"{name}_shown", name, "measure", f"{_MEANINGS[name]}, with its unit", width=11, order=order, sorts=name,
             pairs="alone") for name, order in zip(_VALUES, (3, 0, 4, 1), strict=True)),
    Column("trend", "over time", "trend", "means over 24 equal parts of the sampled time", width=24, order=2,
           pairs="alone"),
    *(Column(name, name, "number", _MEANINGS[name], width=11, order=None) for name in _VALUES),
    Column("first_ns", "first", "ns", "time of the first sample, from the start of the trace", width=11, order=7,
           role="moment", pairs="side"),
    Column("last_ns", "last", "ns", "time of the last sample", width=11, order=8, role="moment", pairs="side"),
    Column("pid", "process", "number", "process the samples belong to; empty for the whole machine", width=8, order=5,
           role="where", pairs="alone"),
    Column("rank", "rank", "number", "rank of the job", width=5, order=5, role="where", pairs="alone"),
)
_PAIRED = side_by_side(COLUMNS)
PAIR_COLUMNS = (
    *_PAIRED[:3],
    Column("mean_change", "mean A → B", "measure", "mean of the samples in each run", width=22, order=0),
    Column("change", "Δ%", "fraction", "change of the mean, relative to A", width=8, order=0, signed=True, of="of A"),
    Column("max_change", "max A → B", "measure", "largest sample in each run", width=22, order=3),
    *_PAIRED[3:],
)
MOST_NAMED = 12  # Non-numeric columns listed by name; the others are counted.


def build(runs: Runs, options: Options) -> Answer:
    """The counters of one run by name, or of two runs by the change of their means."""
    owned = len(runs) == 1
    tables = [summarised(run) if owned else summarised(run, ()) for run in runs]
    if all(table.is_empty() for table in tables):
        names = " and ".join(run.info.label for run in runs)
        unread = "".join(f"{table}; " for run in runs for table in run.unread(*_OF_METRICS))
        raise CannotAnswer(f"{names} {'holds' if len(runs) == 1 else 'hold'} no samples of counters; {unread}"
                           "a log of nvidia-smi or dcgmi in the folder of a trace is read with it.")
    drawn = _drawn(runs, tables, options)
    notes = tuple(dict.fromkeys(note for run in runs for note in _notes(run)))
    counts = tuple(
        f"{side}{units.counted(table.height, 'counter', 'counters')}, "
        f"{units.counted(int(table['samples'].sum()), 'sample', 'samples')}"
        for side, table in zip(("A: ", "B: ") if len(runs) > 1 else ("",), tables, strict=True)
    )
    if len(runs) == 1:
        shown = _with_shown(tables[0]).select(column.name for column in COLUMNS)
        findings = counter_findings(runs[0])
        return Answer(
            shown.lazy(), summary=(*counts, *(one.sentence for one in findings)), notes=notes, picture=drawn,
            rows_below=True, facts={"rules": [to_builtins(one) for one in findings]},
        )
    pairs = mapped(*(table["device"].cast(pl.String).to_list() for table in tables))
    a, b = tables[0], tables[1].with_columns(renamed_devices(pairs))
    joined = _by_change(paired_rows(_with_shown(a), _with_shown(b), COLUMNS))
    return Answer(
        joined.select(column.name for column in PAIR_COLUMNS).lazy(), summary=counts,
        notes=(*notes, *note(pairs)), picture=drawn, rows_below=True,
    )


def _with_shown(table: pl.DataFrame) -> pl.DataFrame:
    """The table with each value also as text with its unit (``*_shown``)."""
    return table.with_columns(
        pl.struct("unit", value=name).map_elements(
            lambda row: None if row["value"] is None else metrics.value_text(row["value"], str(row["unit"] or "")),
            return_dtype=pl.String, skip_nulls=False,
        ).alias(f"{name}_shown")
        for name in _VALUES
    )


def _by_change(joined: pl.DataFrame) -> pl.DataFrame:
    """The rows with the change of the mean, largest first; counters of only one run come last."""
    def text(name: str) -> pl.Expr:
        return pl.struct("unit", a=f"{name}_a", b=f"{name}_b").map_elements(
            lambda row: metrics.change(row["a"], row["b"], str(row["unit"] or "")), return_dtype=pl.String,
            skip_nulls=False,
        )

    return joined.with_columns(
        mean_change=text("mean"), max_change=text("max"),
        change=pl.when(pl.col("mean_a") != 0).then(pl.col("mean_delta") / pl.col("mean_a").abs()),
    ).sort(pl.col("change").abs(), pl.col("metric").cast(pl.String), pl.col("device").cast(pl.String),
           descending=[True, False, False], nulls_last=True, maintain_order=True)


_OF_METRICS = ("NIC_", "NET_", "METRIC", "NVLINK", "IB_")


def _notes(run: Trace) -> list[str]:
    left_out = run.info.facts.get("columns_left_out") or []
    more = f" and {len(left_out) - MOST_NAMED} more" if len(left_out) > MOST_NAMED else ""
    lacking = [f"Columns without numbers: {', '.join(map(str, left_out[:MOST_NAMED]))}{more}."] if left_out else []
    return [*lacking, *run.unread(*_OF_METRICS)]


def _drawn(runs: Runs, tables: list[pl.DataFrame], options: Options) -> tuple[tuple[str, ...], ...]:
    """Plots of the counters most worth seeing, as one block of text."""
    full = next(table for table in tables if not table.is_empty())
    at = next(at for at, table in enumerate(tables) if not table.is_empty())
    groups = []
    for group in telling(full):
        names = {str(row["metric"]) for row in group}
        keys = [key_of(row, at, len(runs) > 1) for row in group]
        if len(runs) > 1 and at == 0:
            others = tables[1].filter(pl.col("metric").cast(pl.String).is_in(names), pl.col("samples") > 1)
            keys += [key_of(row, 1, True) for row in others.iter_rows(named=True)]
        groups.append(keys)
    marks = [cycle_marks(run, options) for run in runs]
    shifts = offsets(runs, marks)
    placed = [moved(one, shift) for one, shift in zip(marks, shifts, strict=True)]
    lines = picture(runs, groups, placed, shifts, _PICTURE)
    return (tuple(lines),) if lines else ()


VIEW = View("metrics", COLUMNS, build, PAIR_COLUMNS, noun="counters")
SAMPLE_COLUMNS = (
    Column("ts_ns", "time", "ns", "time of the sample, from the start of the trace; empty where not recorded", width=13,
           order=0, role="moment"),
    Column("metric", "metric", "text", "counter as recorded", width=26, order=0, elastic=True, pinned=True,
           role="label"),
    Column("device", "device", "text", "device it was sampled on", width=8, order=1, role="where"),
    Column("value", "value", "number", "sampled value; empty where the monitor could not read it", width=14, order=0),
    Column("unit", "unit", "text", "unit of the value", width=5, order=1, role="where"),
    Column("pid", "process", "number", "process the sample belongs to; empty for the whole machine", width=8, order=4,
           role="where"),
    Column("rank", "rank", "number", "rank of the job", width=5, order=4, role="where"),
)


def samples(runs: Runs, options: Options) -> Answer:
    """The samples of one run in recorded order; of two runs those of A, or of B where A has none."""
    sides = [(letter, run) for letter, run in zip("AB", runs, strict=False) if run.has("metrics")]
    if not sides:
        labels = list(dict.fromkeys(run.info.label for run in runs))
        raise CannotAnswer(f"{' and '.join(labels)} {'hold' if labels[1:] else 'holds'} no samples of counters.")
    here, run = sides[0]
    other = f"`--run {sides[1][0].lower()}` gives those of {sides[1][0]}" if sides[1:] else "the other run holds none"
    notes = (f"These are the samples of {here}; {other}.",) if len(runs) == 2 else ()
    count = run.metrics.select(pl.len()).collect(engine="streaming").item()
    return Answer(
        run.metrics.select(column.name for column in SAMPLE_COLUMNS), recorded=True,
        summary=(units.counted(count, "sample", "samples"),), notes=notes,
    )


SAMPLES = View("samples", SAMPLE_COLUMNS, samples, pair_columns=SAMPLE_COLUMNS, noun="samples")
