"""What the records of Nsight Compute become: launches in order, with the metrics that columns have a place for.

``offset`` is the number of the launch, by which everything else that was measured of it is found again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from .. import schema
from ..collective_names import kernel_kind
from ..trace import Device, Info, Trace
from . import metrics as ncu_metrics
from .csv_pages import NcuRecords


def trace_of(path: Path, format_name: str, records: NcuRecords, size: int, fault: str | None) -> Trace:
    """The Trace of the records, of which there is at least one."""
    launches = pl.concat(records.launches).unique(list(ncu_metrics.KEY), keep="first", maintain_order=True)
    kernels = _kernels(launches, pl.concat(records.samples))
    info = Info(
        source=str(path), label=path.name.split(".")[0], format=format_name, tool="Nsight Compute", bytes=size,
        devices=_devices(launches), serialised=True, warnings=tuple(_warnings(records, kernels, fault)),
        facts={"unused_metrics": sorted(records.unused)},
    )
    return Trace(info, kernels=schema.conform("kernels", kernels.lazy()))


def _kernels(launches: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """Launches with what was measured of them, in the order of the file."""
    frame = ncu_metrics.measured(launches, samples)
    kinds = {name: kernel_kind(name) for name in launches["name"].unique()}
    return frame.with_row_index("index").with_columns(
        pl.col("index").cast(pl.Int64).alias("offset"),
        pl.col("dur_ns").round().cast(pl.Int64, strict=False),
        ncu_metrics.printable(frame["tensor"]),
        ncu_metrics.printable(frame["dram"]),
        pl.col("registers").round().cast(pl.Int32, strict=False),
        pl.coalesce("shared_bytes", pl.sum_horizontal("shared_static", "shared_dynamic", ignore_nulls=False))
        .round()
        .cast(pl.Int64, strict=False)
        .alias("shared_bytes"),
        kind=pl.col("name").cast(pl.String).replace_strict(kinds, return_dtype=pl.String),
    )


def _devices(launches: pl.DataFrame) -> tuple[Device, ...]:
    pairs = launches.select("device", "cc").unique().drop_nulls("device").sort("device").rows()
    return tuple(Device(device, None, {"compute_capability": cc} if cc else {}) for device, cc in pairs)


def _warnings(records: NcuRecords, kernels: pl.DataFrame, fault: str | None) -> Iterator[str]:
    if fault:
        yield fault
    if records.malformed:
        yield f"{records.malformed:,} lines name no kernel and were left out."
    if missing := kernels["dur_ns"].null_count():
        yield f"{missing:,} of {kernels.height:,} launches have no duration: gpu__time_duration was not collected."
