"""What 100% is: the fact ``base`` of every answer, and the words for it on screens and pages.

It is one step (``facts.step.step_ns``) where the run has steps or other cycles in use; else the recording, by the
device with most time: from its first to its last activity, or the sum of its launches where they have no times.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..core import units


class MainWindow(NamedTuple):
    """A device and rank, and the time from its first to its last activity, ns; where activities have no times
    (``first_ns`` is None) the sum of their durations."""

    device: str | None
    rank: int | None
    ns: float
    first_ns: int | None = None


def base_facts(run: Trace, step: dict[str, Any] | None) -> dict[str, Any] | None:
    """``label label_short ns per`` (per: ``step cycle recording``); None where nothing was timed. ``step`` as in
    ``step_facts``."""
    if step is not None and step["step_ns"] is not None:
        name = str(step["name"])
        short = "a step" if name == "step" else "a cycle"  # within 24 cells
        return _base(f"one {name}", short, step["step_ns"], "step" if name == "step" else "cycle")
    found = main_window(run)
    if found is None:
        return None
    ns, timed = found.ns, found.first_ns is not None
    what = "the recording from its first to its last device activity" if timed else "the time of all launches"
    return _base(what, "the run" if timed else "all launches", ns, "recording")


def of_compared(base: dict[str, Any] | None, ns: float) -> dict[str, Any] | None:
    """The base of a run in a comparison: the mean of the compared steps, which an account of their difference has."""
    if base is None or base["per"] == "recording":
        return base
    label, label_short = (text.rpartition(", ")[0] for text in (base["label"], base["label_short"]))
    length = units.duration(ns)
    return {**base, "label": f"{label}, {length}", "label_short": f"{label_short}, {length}", "ns": ns}


def main_window(run: Trace) -> MainWindow | None:
    """The device with most time and its window; None where nothing was timed."""
    if not run.has("kernels"):
        total = run.kernel_stats.select(pl.col("total_ns").sum()).collect().item() if run.has("kernel_stats") else None
        return MainWindow(None, None, float(total)) if total else None
    end = pl.col("start_ns") + pl.col("dur_ns").fill_null(0).clip(lower_bound=0)
    sums = run.kernels.filter(is_work()).group_by("rank", "device").agg(
        pl.col("start_ns").min().alias("first"), end.max().alias("last"), pl.col("dur_ns").sum().alias("total"),
    ).with_columns(pl.col("device").cast(pl.String)).sort(
        "total", "rank", "device", descending=[True, False, False], nulls_last=True
    ).head(1).collect(engine="streaming")
    if sums.is_empty() or not sums["total"][0]:
        return None
    rank, device, first, last, total = sums.row(0)
    return MainWindow(device, rank, float(total if first is None else last - first), first)


def _base(what: str, short: str, ns: float, per: str) -> dict[str, Any]:
    length = units.duration(ns)
    return {"label": f"shares are of {what}, {length}", "label_short": f"of {short}, {length}", "ns": ns, "per": per}
