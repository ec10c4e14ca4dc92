"""What limits a launch, from its metrics: the occupancy limiter, stall reasons, and its place in the roofline.

Formulas are those of Nsight Compute's own sections (``Occupancy.section``, ``WarpStateStatistics.section``,
``SpeedOfLight_RooflineChart.section``). Metrics are keyed by name, and by section and name (``Occupancy: Block Limit
SM``); values are in the units of ``launch_metrics``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace

_LIMITS = {
    "registers": ("Block Limit Registers", "launch__occupancy_limit_registers"),
    "shared memory": ("Block Limit Shared Mem", "launch__occupancy_limit_shared_mem"),
    "warps": ("Block Limit Warps", "launch__occupancy_limit_warps"),
    "block slots": ("Block Limit SM", "launch__occupancy_limit_blocks"),
    "barriers": ("Block Limit Barriers", "launch__occupancy_limit_barriers"),
}
_THEORETICAL = ("Theoretical Occupancy", "sm__maximum_warps_per_active_cycle_pct")
_ACHIEVED = ("Achieved Occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active")
_STALLS = (
    re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active\.ratio"),
    re.compile(r"smsp__average_warp_latency_issue_stalled_(\w+)\.(?:ratio|pct)"),
    re.compile(r"smsp__pcsamp_warps_issue_stalled_(\w+?)(?<!_not_issued)"),
    re.compile(r"Stall (\w[\w /]*)"),
)
"""Names of stall metrics, the most accurate kind first: cycles between two issues of a warp, then samples."""


class OccupancyLimits(Struct, frozen=True):
    """Blocks that fit on an SM, by limiter, and the theoretical and achieved occupancy, %."""

    blocks: dict[str, float]
    theoretical: float | None
    achieved: float | None

    @property
    def limiters(self) -> tuple[str, ...]:
        """The limiters that allow the fewest blocks; several on a tie."""
        least = min(self.blocks.values())
        return tuple(name for name, blocks in self.blocks.items() if blocks == least)


class MeasuredRoofline(Struct, frozen=True):
    """FLOP/s of one precision and bytes/s of DRAM, achieved and peak; None if not collected."""

    precision: str
    flops: float
    peak_flops: float | None
    bytes: float | None
    peak_bytes: float | None


def limiters_of(run: Trace) -> pl.DataFrame | None:
    """The occupancy limiter of each launch and the theoretical occupancy, 0-1: ``index limiter allowed``; None if no
    limits were recorded."""
    if not run.has("launch_metrics"):
        return None
    named = {name: limit for limit, names in _LIMITS.items() for name in names}
    metric = pl.col("metric").cast(pl.String)
    rows = run.launch_metrics.filter(metric.is_in([*named, *_THEORETICAL])).select("index", "value", metric).collect()
    limits = rows.filter(pl.col("metric").is_in(list(named)), pl.col("value") > 0).sort(
        "index", "value", maintain_order=True).unique("index", keep="first")
    if limits.is_empty():
        return None
    allowed = rows.filter(pl.col("metric").is_in(_THEORETICAL)).unique("index", keep="first")
    return limits.select("index", limiter=pl.col("metric").replace_strict(named)).join(
        allowed.select("index", allowed=pl.col("value") / 100), on="index", how="left")


def occupancy_of(metrics: Mapping[str, float | None]) -> OccupancyLimits | None:
    """The occupancy limits of a launch; None if none were recorded."""
    blocks = {name: value for name, names in _LIMITS.items() if (value := _first(metrics, names))}
    return OccupancyLimits(blocks, _first(metrics, _THEORETICAL), _first(metrics, _ACHIEVED)) if blocks else None


def stalls_of(metrics: Mapping[str, float | None]) -> list[tuple[str, float]]:
    """Stall reasons with their share of all stalls, largest first; without 'selected', which is a warp that issues."""
    for pattern in _STALLS:
        stalls = {
            match[1].replace("_", " "): value
            for name, value in metrics.items() if value is not None and (match := pattern.fullmatch(name))
        }
        stalls.pop("selected", None)
        total = sum(stalls.values())
        if total > 0:
            return sorted(((name, value / total) for name, value in stalls.items()), key=lambda one: -one[1])
    return []


def rooflines_of(metrics: Mapping[str, float | None]) -> list[MeasuredRoofline]:
    """The launch's place in the roofline of each precision whose instructions were counted."""
    result = [*_labelled_rooflines(metrics)]
    clock = metrics.get("smsp__cycles_elapsed.avg.per_second")
    sm_clock = metrics.get("sm__cycles_elapsed.avg.per_second")
    traffic = metrics.get("dram__bytes.sum.per_second")
    width = metrics.get("dram__bytes.sum.peak_sustained")
    dram_clock = metrics.get("dram__cycles_elapsed.avg.per_second")
    time = metrics.get("gpu__time_duration.sum")
    for precision, letter in (("fp32", "f"), ("fp64", "d"), ("fp16", "h")):
        def count(what: str, how: str, letter: str = letter) -> float | None:
            return metrics.get(f"smsp__sass_thread_inst_executed_op_{letter}{what}_pred_on.{how}")

        flops = None
        for how, times in (("sum.per_cycle_elapsed", clock), ("sum", 1e9 / time if time else None)):
            counts = [count(what, how) for what in ("add", "mul", "fma")]
            if times and all(one is not None for one in counts):
                add, mul, fma = (one or 0.0 for one in counts)
                flops = (add + mul + 2 * fma) * times
                break
        if not flops or any(one.precision == precision for one in result):
            continue
        issue = metrics.get(f"sm__sass_thread_inst_executed_op_{letter}fma_pred_on.sum.peak_sustained")
        result.append(MeasuredRoofline(precision, flops, 2 * issue * sm_clock if issue and sm_clock else None, traffic,
                             width * dram_clock if width and dram_clock else None))
    return result


def _labelled_rooflines(metrics: Mapping[str, float | None]) -> Iterator[MeasuredRoofline]:
    """The rooflines from a details page, which has labels by section where a raw page has metric names."""
    for precision, title, letter in (("fp32", "Single Precision", "F"), ("fp64", "Double Precision", "D")):
        chart = f"GPU Speed Of Light Roofline Chart · {title}"
        achieved, peak = f"{chart} Achieved Value: ", f"{chart} Roofline: "
        rates = [metrics.get(f"{achieved}Predicated-On {letter}{what} Per Cycle") for what in (
            "FMA Operations", "ADD Thread Instructions Executed", "MUL Thread Instructions Executed")]
        clock = metrics.get(f"{achieved}SM Frequency")
        flops = sum(one or 0.0 for one in rates) * (clock or 0.0)
        if not flops or None in rates:
            continue
        top = [metrics.get(f"{peak}{name}") for name in (
            f"Theoretical Predicated-On {letter}FMA Operations", "SM Frequency", "Theoretical DRAM Bytes Accessible",
            "DRAM Frequency")]
        issue, sm_clock, width, dram_clock = top
        yield MeasuredRoofline(precision, flops, issue * sm_clock if issue and sm_clock else None,
                       metrics.get(f"{achieved}DRAM Bandwidth"), width * dram_clock if width and dram_clock else None)


def _first(metrics: Mapping[str, float | None], names: tuple[str, ...]) -> float | None:
    return next((value for name in names if (value := metrics.get(name)) is not None), None)
