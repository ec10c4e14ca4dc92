"""What one step of a run takes: the fact ``step``, the same in every view.

"Step time" without a further word is always ``step_ns`` of this fact: the mean over the cycles that were recorded whole
and are no warm-up, on the device of each rank with most own work; of a job the mean over its ranks.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from ..core.run_labels import device_labels
from .detection import Cycles
from .step_times import FIGURES, main_devices


def kept(frame: pl.DataFrame) -> pl.DataFrame:
    """The cycles that means are taken over: whole and no warm-up."""
    return frame.filter(pl.col("complete") & ~pl.col("warm_up"))


def step_facts(cycles: Cycles) -> dict[str, Any] | None:
    """``name source count whole device``, the mean of each of ``FIGURES`` (ns, null where unknown) over ``kept`` cycles
    on the main device, and the same per device in ``devices``; None without cycles, or with ignored ones."""
    frame = cycles.frame
    if frame.is_empty() or cycles.ignored is not None:
        return None
    one = {"name": cycles.noun, "source": cycles.source, "count": frame.height, "whole": int(frame["complete"].sum())}
    times = _kept_times(cycles)
    if times.is_empty():
        means = kept(frame).group_by("rank").agg(pl.col(FIGURES).mean()).select(pl.col(FIGURES).mean())
        return {**one, "device": None, **_figures(means), "devices": []}
    main = times.join(main_devices(times), on=["rank", "device"], how="semi", nulls_equal=True)
    by_rank = main.group_by("rank").agg(pl.col(FIGURES).mean())
    every = times.group_by("rank", "device", maintain_order=True).agg(
        pl.len().alias("whole"), pl.col(FIGURES).mean()).sort("rank")
    labels = device_labels([(rank, device) for rank, device in main.select("rank", "device").unique().rows()])
    names = {label for label in labels.values() if label is not None}
    return {
        **one, "device": names.pop() if len(names) == 1 else None, **_figures(by_rank.select(pl.col(FIGURES).mean())),
        "devices": [{"device": device, "rank": rank, "whole": whole, **dict(zip(FIGURES, figures, strict=True))}
                    for rank, device, whole, *figures in every.rows()],
    }


def step_by_rank(cycles: Cycles) -> dict[int | None, float]:
    """The step time of each rank, ns: the mean over its kept cycles; under None that of cycles without a rank."""
    means = kept(cycles.frame).drop_nulls("step_ns").group_by("rank").agg(pl.col("step_ns").mean())
    return dict(means.rows())


def _kept_times(cycles: Cycles) -> pl.DataFrame:
    """The rows of ``StepTimes.devices`` of the kept cycles, with times."""
    rows = kept(cycles.frame)["row"]
    return cycles.times.devices.filter(pl.col("row").is_in(rows.implode()), pl.col("step_ns").is_not_null())


def _figures(means: pl.DataFrame) -> dict[str, float | None]:
    return dict(zip(FIGURES, means.row(0), strict=True)) if means.height else dict.fromkeys(FIGURES)
