"""The roofline of a compiled program (XLA): the FLOPs and bytes of its ops, from the HLO that the profile carries.

An op that launches several kernels does its work once per execution: executions are counted by the slices of the op
that the host recorded, else by the greatest count that divides the launches of each of its kernels. A product of fp32
may run as tf32 (XLA's default), so the faster of the two rates is its peak.
"""

from __future__ import annotations

from functools import reduce
from math import gcd

import polars as pl

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..contract.column import ABOVE_PEAK
from ..core.unknown import largest, total
from .peaks import DevicePeak
from .roofline import COMPUTE, MEMORY, peaks_of

_OP = ["module", "op", "device", "dtype", "flops", "bytes"]


def has_compiled_work(run: Trace) -> bool:
    """Whether the ops of the run carry their work."""
    return run.has("kernels.op_bytes") or run.has("kernels.op_flops")


def compiled_rows(run: Trace) -> pl.DataFrame:
    """One row per op and device in columns of the roofline, most device time first; work is null where the HLO does not
    tell it (custom calls other than products), and so is what is made of it."""
    took = pl.col("dur_ns")
    kernels = run.kernels.filter(pl.col("kind") == "kernel", took > 0).select(
        "dur_ns", "op_id", pl.col("name", "device", "op_module", "op_dtype").cast(pl.String),
        pl.coalesce(pl.col("op_name", "name").cast(pl.String)).alias("op"), "op_flops", "op_bytes",
    ).rename({"op_module": "module", "op_dtype": "dtype", "op_flops": "flops", "op_bytes": "bytes"})
    each = kernels.group_by(*_OP, "name").agg(launches=pl.len()).group_by(_OP).agg("launches")
    slices = kernels.group_by(_OP).agg(
        total(took).alias("device_ns"), executions=pl.when(pl.col("op_id").null_count() == 0).then(
            pl.col("op_id").n_unique()))
    rows = slices.join(each, on=_OP, how="left", nulls_equal=True).collect(engine="streaming")
    divisors = [reduce(gcd, counts) for counts in rows["launches"].to_list()]
    rows = rows.with_columns(calls=pl.coalesce("executions", pl.Series(divisors, dtype=pl.Int64)).cast(pl.Int64))
    several = rows["module"].drop_nulls().n_unique() > 1
    rates = _rates(rows, peaks_of(run))
    flops, moved, once = pl.col("flops"), pl.col("bytes"), pl.col("device_ns") / pl.col("calls")
    rows = rows.join(rates, on=["device", "dtype"], how="left", nulls_equal=True).with_columns(
        op=pl.concat_str("module", pl.lit("/"), "op") if several else pl.col("op"),
        intensity=pl.when(moved > 0).then(flops / moved), flops_per_s=flops / once * 1e9,
        bytes_per_s=moved / once * 1e9,
        compute_of_peak=flops / pl.col("flops_peak") / once * 1e9,
        memory_of_peak=moved / pl.col("bytes_peak") / once * 1e9,
        compute_ns=pl.when(flops == 0).then(0.0).otherwise(flops / pl.col("flops_peak") * 1e9),
        memory_ns=moved / pl.col("bytes_peak") * 1e9,
    )
    least = pl.col("least") * pl.col("calls")
    share = pl.max_horizontal("compute_of_peak", "memory_of_peak")
    return rows.with_columns(least=largest("compute_ns", "memory_ns")).with_columns(
        pl.col("op", "device", "dtype").cast(NAME),
        bound=pl.when(pl.col("least").is_null()).then(None).when(pl.col("compute_ns") > pl.col("memory_ns"))
        .then(pl.lit(COMPUTE)).otherwise(pl.lit(MEMORY)),
        least_ns=least.round().cast(pl.Int64),
        lost_ns=(pl.col("device_ns") - least).clip(0).round().cast(pl.Int64), above_peak=share > ABOVE_PEAK,
    ).drop("launches", "executions", "module", "flops_peak", "bytes_peak", "compute_ns", "memory_ns", "least").sort(
        "device_ns", "op", descending=[True, False])


def _rates(rows: pl.DataFrame, peaks: dict[str, DevicePeak]) -> pl.DataFrame:
    """``flops_peak bytes_peak`` of each device and type; null where the table of peaks has none."""
    pairs = []
    for device, dtype in rows.select("device", "dtype").unique().rows():
        peak = peaks.get(device)
        types = ("fp32", "tf32") if dtype == "fp32" else (dtype,)
        rates = [rate for one in types if peak is not None and (rate := peak.flops_per_s(one, True))]
        pairs.append((device, dtype, max(rates, default=None), peak.bytes_per_s if peak is not None else None))
    return pl.DataFrame(pairs, orient="row", schema={
        "device": pl.String, "dtype": pl.String, "flops_peak": pl.Float64, "bytes_peak": pl.Float64})
