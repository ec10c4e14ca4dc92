"""Sections: everything the profiler measured per kernel, section by section, and the findings of its own rules.

For Nsight Compute these are the details page and its rules with NVIDIA's estimates, for rocprofiler-compute its panels
and the counters by block. The values of two runs are side by side; rows that only one run has are kept.
"""

from __future__ import annotations

import polars as pl
from msgspec import to_builtins
from msgspec.structs import replace

from ...loaders.trace import Trace
from ..contract.column import Column, side_by_side
from ..contract.options import SIDES, Options
from ..contract.view import Answer, CannotAnswer, Runs, View, lettered, merged_notes
from ..core import units
from ..cycles.scope import scoped
from ..details.measured import measured_sections
from ..measured.by_section import METRIC, RULE, has_measurements, rows_of
from ..measured.rules import recorded_of, rule_sentence, verdict_sentence
from ..measured.values import measured_change
from ..table.sides import paired_rows

COLUMNS = (
    Column("name", "kernel", "text", "measured kernel", width=20, order=1, role="name", pairs="key", heading=True),
    Column("section", "section", "text", "section of the tool's report; the hardware unit where it has none", width=30,
           order=0, elastic=True, role="label", pairs="key", heading=True),
    Column("metric", "metric", "text", "metric as recorded, or the rule that fired", width=32, order=0, elastic=True,
           pinned=True, role="label", pairs="key"),
    Column("shown", "value", "measure", "mean over the kernel's launches with its unit, or n/a (for a rule its kind "
           "and the scope of its estimate)", width=18, order=0, sorts="value", pairs="side"),
    Column("speedup", "est. speedup", "fraction", "speed-up estimated by the tool's own rule (NVIDIA's figure)",
           width=12, order=2, of="of the kernel's time"),
    Column("severity", "kind", "text", "the rule's own severity: OPT, WRN or INF", width=4, order=None),
    Column("scope", "of", "text", "scope of the estimate: global (the kernel's run time) or local (the bottleneck)",
           width=6, order=None),
    Column("said", "what the rule says", "text", "the rule's own words", width=60, order=8, role="label"),
    Column("value", "value", "number", "the value as a number, in the row's unit", width=12, order=None),
    Column("unit", "unit", "text", "unit of the value: ns, B, B/s, Hz, % or as recorded", width=8, order=None,
           pairs="key"),
    Column("least", "least", "number", "smallest over the launches", width=10, order=None),
    Column("most", "most", "number", "largest over the launches", width=10, order=None),
    Column("launches", "launches", "count", "launches it was measured on", width=8, order=7, role="count", pairs="sum"),
    Column("what", "what", "text", "metric or rule", width=6, order=None, pairs="key"),
)
_PAIRED = side_by_side(COLUMNS)
_LISTED_ONCE = ("shown_", "speedup_", "severity_b", "scope_b", "said_", "launches_")
PAIR_COLUMNS = (
    *_PAIRED[:3],
    Column("values", "A → B", "measure", "value in each run (for a rule its estimate)", width=22, order=0,
           sorts="change"),
    Column("change", "Δ%", "fraction", "change of the value (for a rule of its estimate), relative to A", width=8,
           order=0, signed=True, of="of A"),
    *(replace(one, order=None if one.name.startswith(_LISTED_ONCE) else one.order) for one in _PAIRED[3:]),
)
_BEST = 1  # Rules that the summary puts into sentences; all rules are rows.


def build(runs: Runs, options: Options) -> Answer:
    """The measurements of one run, or of two side by side. Raises CannotAnswer if there are none."""
    limited = [scoped(run, options, side) for run, side in zip(runs, SIDES, strict=False)]
    if not any(map(has_measurements, limited)):
        names = " and ".join(run.info.label for run in runs)
        raise CannotAnswer(f"{names} {'has' if len(runs) == 1 else 'have'} no metrics of single launches; Nsight "
                           "Compute, rocprofiler-compute and rocprofv3 with counters record them.")
    frames = [rows_of(run) for run in limited]
    sentences = [_summary(run, frame) for run, frame in zip(limited, frames, strict=True)]
    facts = [_facts(run) for run in limited]
    notes = [tuple(run.info.facts.get("measured_notes", ())) for run in runs]
    if len(runs) == 1:
        return Answer(frames[0].select(one.name for one in COLUMNS).lazy(), facts[0], sentences[0], notes[0])
    return Answer(
        _compared(*frames).select(one.name for one in PAIR_COLUMNS).lazy(), dict(zip(SIDES, facts, strict=True)),
        lettered(sentences), merged_notes(notes),
    )


def _compared(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """The rows of both, by kernel, then section, then row: in the order of A, then what only B has."""
    b = _in_the_sections_of(a, b)
    joined = paired_rows(a.with_row_index("row"), b.with_row_index("row"), (*COLUMNS, _ROW))
    row = pl.coalesce("row_a", pl.col("row_b") + a.height)
    joined = joined.with_columns(row=row, rule=pl.col("what") == RULE).with_columns(
        _kernel=pl.col("row").min().over("name"), _section=pl.col("row").min().over("name", "section", "rule"))
    a_value, b_value = (pl.coalesce(f"value_{side}", f"speedup_{side}") for side in "ab")
    shown = joined.with_columns(
        *(pl.coalesce(f"value_{side}", 100 * pl.col(f"speedup_{side}")).alias(f"value_{side}") for side in "ab"),
        unit=pl.when(pl.col("what") == RULE).then(pl.lit("%")).otherwise("unit"))
    texts = [measured_change(a, b, unit, (text_a, text_b)) for a, b, unit, text_a, text_b in shown.select(
        "value_a", "value_b", "unit", *(pl.when(pl.col("what") == METRIC).then(f"shown_{side}").alias(f"shown_{side}")
                                        for side in "ab")).rows()]
    values = pl.Series(texts, dtype=pl.String)
    return joined.with_columns(
        values=pl.when("rule").then("est. " + values).otherwise(values),
        change=pl.when(a_value != 0).then((b_value - a_value) / a_value.abs()),
    ).sort("_kernel", ~pl.col("rule"), pl.when(~pl.col("rule")).then("_section"), "row")


def _in_the_sections_of(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """B with its raw metrics (``dram__bytes.sum``), whose names are unique, moved to A's sections: another page of the
    same report has other sections."""
    raw = a.filter(pl.col("metric").str.contains("__")).unique("metric", keep="first")
    raw = raw.select("metric", _there="section")
    return b.join(raw, on="metric", how="left", maintain_order="left").with_columns(
        section=pl.coalesce("_there", "section")).unique(
            ["name", "what", "section", "metric", "unit"], keep="first", maintain_order=True).drop("_there")


_ROW = Column("row", "row", "number", "place in its run", pairs="side")


def _summary(run: Trace, frame: pl.DataFrame) -> tuple[str, ...]:
    metrics = frame.filter(pl.col("what") == METRIC)
    counted = (
        f"{units.counted(metrics.select('section', 'metric').n_unique(), 'metric', 'metrics')} in "
        f"{units.counted(metrics['section'].n_unique(), 'section', 'sections')} of "
        f"{units.counted(frame['name'].n_unique(), 'kernel', 'kernels')}"
    )
    recorded = recorded_of(run)
    if recorded is None:
        return (counted,)
    verdict = (verdict_sentence(recorded.verdicts),) if recorded.verdicts else ()
    worth = [one for one in recorded.found if one.severity != "INF"]
    return (counted, *verdict, *(rule_sentence(one) for one in worth[:_BEST]))


def _facts(run: Trace) -> dict[str, object]:
    recorded = recorded_of(run)
    return {
        "found": [to_builtins(one) for one in recorded.found] if recorded else [],
        "verdicts": recorded.verdicts if recorded else {},
    }


VIEW = View(
    "sections", COLUMNS, build, PAIR_COLUMNS, alternates=("speedup", "change"), noun="metrics",
    details=measured_sections,
)
