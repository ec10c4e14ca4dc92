"""Details of profiler measurements (Enter in the sections view): a rule's text, and all metrics of a launch."""

from __future__ import annotations

import polars as pl

from ...loaders.trace import Trace
from ..contract.options import Options
from ..contract.sections import MOST, Section
from ..core import units
from ..core.text import display
from ..measured.limits import occupancy_of, rooflines_of, stalls_of
from ..measured.rules import estimate, section_title
from ..measured.values import measure
from .listed import Row, Runs, sides

_ROWS = 600  # Most metrics of one launch that are shown; the view has all.
_LONGEST = 4_000


def launch_measurements(run: Trace, index: int, tail: str = "") -> list[Section]:
    """The measurements of a launch: its limiters, the profiler's rules, then the metrics by section."""
    here = pl.col("index") == index
    metrics = run.launch_metrics.filter(here).with_columns(
        pl.col("section", "metric", "unit", "text").cast(pl.String)).collect()
    rules = run.launch_rules.filter(here).with_columns(pl.col("section", "rule", "scope").cast(pl.String)).sort(
        "speedup", descending=True, nulls_last=True, maintain_order=True).collect()
    result = held_back(_by_name(metrics), tail)
    if rules.height:
        findings = [(rule or section_title(section, ""), f"{estimate(gain, scope)}{display(message or '', _LONGEST)}")
                    for section, rule, gain, scope, message in rules.select(
                    "section", "rule", "speedup", "scope", "message").rows()]
        result.append(Section(f"What NVIDIA's rules say{tail}", tuple(findings)))
    by_title: dict[str, list[tuple[str, str]]] = {}
    for section, metric, value, unit, text in metrics.head(_ROWS).select(
        "section", "metric", "value", "unit", "text").rows():
        row = display(metric, 84), display(measure(value, unit, text) or units.MISSING, 200)
        by_title.setdefault(section_title(section, metric), []).append(row)
    result += [Section(f"{display(title)}{tail}", tuple(rows)) for title, rows in by_title.items()]
    if metrics.height > _ROWS:
        left = units.count(metrics.height - _ROWS)
        result.append(Section("More", ((f"{left} more metrics", "the sections view has all"),)))
    return result


def held_back(metrics: dict[str, float | None], tail: str = "") -> list[Section]:
    """The limiters of a launch according to its metrics: occupancy, stall reasons, roofline."""
    result = []
    if occupancy := occupancy_of(metrics):
        limiters = " and ".join(occupancy.limiters)
        rows = [("limited by", limiters)]
        rows += [(name, f"{units.percent(value)}") for name, value in (
            ("theoretical", occupancy.theoretical), ("achieved", occupancy.achieved)) if value is not None]
        rows += [(name, f"{units.number(blocks)} per SM") for name, blocks in sorted(
            occupancy.blocks.items(), key=lambda one: one[1])]
        result.append(Section(f"Occupancy limiter{tail}", tuple(rows)))
    if stalls := stalls_of(metrics):
        rows = [(name, units.percent(100 * share)) for name, share in stalls[:MOST]]
        result.append(Section(f"Stall reasons{tail}, share of all", tuple(rows)))
    for one in rooflines_of(metrics):
        rows = [("achieved", f"{measure(one.flops, 'FLOP/s')}")]
        if one.peak_flops:
            rows.append(("of peak", units.percent(100 * one.flops / one.peak_flops)))
        if one.bytes:
            rows.append(("intensity", f"{units.number(one.flops / one.bytes)} FLOP/B"))
        if one.bytes and one.peak_bytes:
            rows.append(("DRAM of peak", units.percent(100 * one.bytes / one.peak_bytes)))
        result.append(Section(f"Roofline, {one.precision}{tail}", tuple(rows)))
    return result


def measured_sections(row: Row, runs: Runs, options: Options) -> list[Section]:
    """The rule's text or the metric's value per launch, and the limiters of the kernel."""
    messages = [(ending, row.get(f"said{side}")) for side, ending in (("", ""), ("_a", " · A"), ("_b", " · B"))]
    result = [Section(f"What the rule says{ending}", (("", display(str(text), _LONGEST)),))
            for ending, text in messages if text]
    for _, run, tail in sides(runs, options):
        kernels = run.kernels.filter(pl.col("name").cast(pl.String) == row["name"]).select("index", "dur_ns")
        values = run.launch_metrics.filter(
            pl.col("metric").cast(pl.String) == row["metric"]
        ).join(kernels, on="index", maintain_order="left").collect()
        if values.height > 1 and row["what"] == "metric":
            rows = tuple((f"#{index}", measure(value, unit, text) or units.MISSING) for index, value, unit, text in
                         values.head(MOST).select("index", "value", pl.col("unit", "text").cast(pl.String)).rows())
            result.append(Section(f"By launch{tail}", rows, ("launch", "value")))
        means = run.launch_metrics.join(kernels, on="index").group_by(
            pl.col("section", "metric").cast(pl.String), maintain_order=True).agg(pl.col("value").mean()).collect()
        result += held_back(_by_name(means), tail)
    return result


def _by_name(metrics: pl.DataFrame) -> dict[str, float | None]:
    """Values by metric (the first if sections repeat it), and by 'section: metric'."""
    rows = metrics.select("section", "metric", "value").rows()
    return {metric: value for _, metric, value in reversed(rows)} | {
        f"{section}: {metric}": value for section, metric, value in rows if section}
