"""The table of everything measured: one row per kernel, section and metric, and one per rule that found something.

Kernels are sorted by time, longest first. Each starts with its rules, largest estimated speed-up first, followed by the
sections in the order of the report. A metric measured in several launches of a kernel is their mean.
"""

from __future__ import annotations

import re

import polars as pl

from ...loaders.trace import Trace
from ..core.metrics import mean_within_range
from ..core.text import display
from .rules import section_title
from .values import measure

KEYS = ("name", "what", "section", "metric", "unit")
RULE, METRIC = "rule", "metric"
_NAMED_BY = 60
"""Characters of the message that stand for the name of a rule without one."""


def has_measurements(run: Trace) -> bool:
    """Whether metrics or rules were recorded launch by launch."""
    return run.has("launch_metrics") or run.has("launch_rules")


def rows_of(run: Trace) -> pl.DataFrame:
    """The rows of one run, sorted: ``KEYS``, ``value`` (mean of the launches, in ``unit``) and ``shown`` (the same as
    text), ``least``, ``most``, ``launches``; for rules ``speedup`` (0-1, the tool's own estimate), ``severity``,
    ``scope`` and ``said``; and ``kernel_ns``, the time of the kernel's launches."""
    launches = run.kernels.select("index", pl.col("name").cast(pl.String), "dur_ns")
    frame = pl.concat([_rules(run, launches), _metrics(run, launches)], how="diagonal")
    time = launches.group_by("name").agg(kernel_ns=pl.when(pl.col("dur_ns").count() > 0).then(
        pl.col("dur_ns").sum())).collect(engine="streaming")
    frame = frame.join(time, on="name", how="left", maintain_order="left").with_row_index("row")
    first = pl.col("row").min()
    return frame.with_columns(
        _section=pl.when(pl.col("what") == METRIC).then(first.over("name", "what", "section")).otherwise(0)
    ).sort(
        pl.col("kernel_ns"), "name", pl.col("what") == METRIC, "speedup", pl.col("scope") == "local",
        "_section", "row", descending=[True, False, False, True, False, False, False], nulls_last=True,
    ).drop("row", "_section")


def _metrics(run: Trace, launches: pl.LazyFrame) -> pl.DataFrame:
    number = pl.col("value")
    frame = run.launch_metrics.with_columns(pl.col("section", "metric", "unit", "text").cast(pl.String)).join(
        launches, on="index", maintain_order="left"
    ).group_by("name", "section", "metric", "unit", maintain_order=True).agg(
        value=mean_within_range(number), least=number.min(), most=number.max(),
        text=pl.col("text").drop_nulls().first(), launches=pl.col("index").n_unique().cast(pl.Int64),
    ).collect()
    names = frame.select("section", "metric").unique()
    titles = names.with_columns(title=pl.Series(
        [section_title(section, metric) for section, metric in names.rows()], dtype=pl.String))
    frame = frame.join(titles, on=["section", "metric"], nulls_equal=True, maintain_order="left")
    shown = [measure(value, unit, text) for value, unit, text in frame.select("value", "unit", "text").rows()]
    return frame.with_columns(
        section=pl.col("title"), what=pl.lit(METRIC), shown=pl.Series(shown, dtype=pl.String)).drop("title", "text")


def _rules(run: Trace, launches: pl.LazyFrame) -> pl.DataFrame:
    """One row per kernel, section and rule, from the launch with the largest estimated speed-up."""
    frame = run.launch_rules.with_columns(pl.col("section", "rule", "kind", "scope").cast(pl.String)).join(
        launches, on="index", maintain_order="left").collect()
    named = [rule or display(re.sub(r"\d[\d.,]*", "#", message or ""))[:_NAMED_BY]
             for rule, message in frame.select("rule", "message").rows()]
    frame = frame.with_columns(
        metric=pl.Series(named, dtype=pl.String), severity=pl.col("kind"),
        section=pl.Series([section_title(one, "") for one in frame["section"]], dtype=pl.String),
    ).sort("speedup", descending=True, nulls_last=True, maintain_order=True)
    result = frame.group_by("name", "section", "metric", maintain_order=True).agg(
        pl.col("speedup", "severity", "scope").first(), said=pl.col("message").first(),
        launches=pl.col("index").n_unique().cast(pl.Int64),
    )
    return result.with_columns(
        shown=pl.concat_str("severity", "scope", separator=", ", ignore_nulls=True).replace("", None),
        what=pl.lit(RULE), unit=pl.lit(None, pl.String), value=pl.lit(None, pl.Float64))
