"""The roofline of a compiled program (XLA): the FLOPs and bytes of its ops, from the HLO that the profile carries.

The type a product is computed in is not in the figures, so no share of the peak FLOP/s is known, and with it no bound,
least or lost time.
"""

from __future__ import annotations

import polars as pl

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.unknown import total
from .roofline import peaks_of


def has_compiled_work(run: Trace) -> bool:
    """Whether the ops of the run carry their work."""
    return run.has("kernels.op_bytes") or run.has("kernels.op_flops")


def compiled_rows(run: Trace) -> pl.DataFrame:
    """One row per op and device in columns of the roofline, most device time first; work is null where the HLO does not
    tell it (custom calls other than products)."""
    took = pl.col("dur_ns")
    rows = run.kernels.filter(pl.col("kind") == "kernel", took > 0).group_by(
        pl.col("name").cast(pl.String).alias("op"), pl.col("device").cast(pl.String), "op_flops", "op_bytes",
    ).agg(pl.len().cast(pl.Int64).alias("calls"), total(took).alias("device_ns")).collect(engine="streaming")
    peaks = {device: peak.bytes_per_s for device, peak in peaks_of(run).items() if peak.bytes_per_s}
    flops, moved, each = pl.col("op_flops"), pl.col("op_bytes"), pl.col("device_ns") / pl.col("calls")
    peak = pl.col("device").replace_strict(peaks, default=None, return_dtype=pl.Float64)
    return rows.with_columns(
        pl.col("op", "device").cast(NAME), flops=flops, bytes=moved,
        intensity=pl.when(moved > 0).then(flops / moved), flops_per_s=flops / each * 1e9,
        bytes_per_s=moved / each * 1e9, memory_of_peak=moved / peak / each * 1e9,
    ).drop("op_flops", "op_bytes").sort("device_ns", "op", descending=[True, False])
