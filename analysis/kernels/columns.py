"""The columns of the kernels view (names are fixed, scripts rely on them), and what bounds a kernel.

With two runs a narrow terminal keeps the columns that show a change: totals, difference of means, where time went.
"""

from __future__ import annotations

import polars as pl
from msgspec.structs import replace

from ..contract.column import Column, pair_columns
from ..contract.options import Thresholds

COMPUTE, MEMORY, LAUNCH, LOW = "compute", "memory", "launch", "low"
MEANINGS = {
    COMPUTE: "tensor cores at least half busy",
    MEMORY: "DRAM at least half busy",
    LAUNCH: "both under 10% busy, and shorter than ten launch latencies",
    LOW: "none of these: worth a look",
    "~": "no counters recorded, estimated from the work of its operators",
}
"""Every bound and its meaning."""
COLUMNS = (
    Column("name", "kernel", "text", "short form of the name; the details show it as recorded", width=34,
           order=0, elastic=True, pinned=True, role="name", pairs="key"),
    Column("groups", "", "kinds", "distinct groups of launches under the name, by grid or duration", width=3, order=1,
           pairs="alone"),
    Column("kind", "kind", "text", "kernel, collective, memcpy or memset", width=10, order=9, role="where", pairs="key",
           pair_order=(11,)),
    Column("device", "device", "text", "device it ran on; empty where not recorded", width=7, order=8, role="where",
           pairs="key", pair_order=(10,)),
    Column("rank", "rank", "number", "rank of the job, where there are several", width=5, order=8, role="where",
           pairs="key", pair_order=(10,)),
    Column("total_ns", "total", "ns", "summed duration", width=10, order=0, role="time", pairs="sum",
           pair_order=(1, 1, 0)),
    Column("share", "of GPU time", "fraction", "share of the summed duration of all device activities (the longest bar "
           "is full)", width=24, order=0, role="share", bar="share", pairs="sum", pair_order=(4, 3, 9),
           of="of the summed activity time"),
    Column("count", "count", "count", "launches", width=7, order=2, role="count", pairs="sum", pair_order=(5, 5, 9)),
    Column("mean_ns", "mean", "ns", "mean duration", width=9, order=7, pair_order=(6, 6, 4), pairs="single"),
    Column("min_ns", "min", "ns", "shortest launch", width=9, order=None, pairs="single"),
    Column("p50_ns", "p50", "ns", "median duration (nearest rank)", width=9, order=4, pair_order=(9,), pairs="single"),
    Column("p99_ns", "p99", "ns", "99th percentile (nearest rank)", width=9, order=5, pair_order=(9,), pairs="single"),
    Column("max_ns", "max", "ns", "longest launch", width=9, order=None, pairs="single"),
    Column("trend", "latency", "trend", "histogram of launch durations, log axis from shortest to longest; one axis "
           "for both runs", width=12, order=6, pairs="single", pair_order=(2,)),
    Column("tensor", "tensor", "fraction", "tensor-core utilisation, share of peak, weighted by duration", width=12,
           order=3, bar="tensor", pair_order=(8, 8, 9), estimate="tensor_of_peak", of="of tensor-core peak"),
    Column("dram", "DRAM", "fraction", "DRAM throughput, share of peak, weighted by duration", width=12, order=3,
           bar="dram", pair_order=(8, 8, 9), estimate="memory_of_peak", of="of DRAM peak"),
    Column("bound", "bound", "text", "; ".join(f"{k}: {v}" for k, v in MEANINGS.items()), width=8, order=3,
           pair_order=(7,)),
    Column("op", "operator", "text", "operator that launched it most often; empty where not recorded", width=22,
           order=7, pair_order=(12,), role="label"),
    Column("compute_of_peak", "of compute", "fraction", "achieved FLOP/s, share of peak, from the FLOPs of its "
           "operators", width=11, order=None, of="of peak FLOP/s"),
    Column("memory_of_peak", "of memory", "fraction", "achieved B/s, share of peak, from the bytes of its operators",
           width=11, order=None, of="of peak B/s"),
    Column("tensor_of_peak", "of tensor", "fraction", "the same as of compute, for kernels that may use tensor cores",
           width=11, order=None, of="of peak FLOP/s"),
)
PAIR_COLUMNS = tuple(replace(one, width=8) if one.unit == "trend" else one for one in pair_columns(COLUMNS))
EXTREMES = (
    Column("devices", "devices", "count", "devices it ran on", width=7, order=3, role="where"),
    Column("most_ns", "max/device", "ns", "total on the device with the largest total", width=10, order=1),
    Column("most_on", "max on", "text", "device or rank with the largest total", width=9, order=1),
    Column("least_ns", "min/device", "ns", "total on the device with the smallest total", width=10, order=2),
    Column("least_on", "min on", "text", "device or rank with the smallest total", width=9, order=2),
)
"""Columns of a row summed over devices; null if there is only one device."""


def bound(thresholds: Thresholds, *, tensor: str = "tensor", dram: str = "dram", mean: str = "mean_ns") -> pl.Expr:
    """The bound of each row from its utilisations (0-1 of peak) and mean duration (ns). Null, which makes no claim,
    where one of the two is unknown: the unknown one may be the larger."""
    on_tensor, on_dram = pl.col(tensor), pl.col(dram)
    short = pl.col(mean) < thresholds.launches * thresholds.launch_ns
    return (
        pl.when(on_tensor.is_null() | on_dram.is_null()).then(pl.lit(None, dtype=pl.String))
        .when(on_tensor >= thresholds.tensor).then(pl.lit(COMPUTE))
        .when(on_dram >= thresholds.dram).then(pl.lit(MEMORY))
        .when((on_tensor < thresholds.idle) & (on_dram < thresholds.idle) & short).then(pl.lit(LAUNCH))
        .otherwise(pl.lit(LOW))
    )
