"""Nsight Compute's summary per kernel (``--print-summary per-kernel``): least, most and mean of each metric.

It names no launches, so it fills ``kernel_stats``: counts, durations, and the utilisation that was collected. A total
is the mean times the count, as printed; percentiles are not in it.
"""

from __future__ import annotations

import re

import polars as pl

from .. import csv_table, schema
from ..collective_names import kernel_kind
from ..errors import Unreadable
from ..ingest import stream
from ..loader import Job
from ..recording.faults import Faults
from ..recording.values import numbers
from ..trace import Device, Info, Trace
from .metrics import meaning_of, natural, printed_numbers

HEADER = re.compile(
    rb'^[^\n]*"?Kernel Name"?,[^\n]*"?Invocations"?,[^\n]*"?Metric Name"?,[^\n]*"?Average"?[^\n]*$', re.MULTILINE)
PRINTED = re.compile(rb"^[ \t]+\S[^\n]*, Context \d+, Stream \d+[^\n]*, Invocations \d+[ \t]*\r?$", re.MULTILINE)
_KERNEL = re.compile(r"\s+(\S.*?)(?: \([\d, ]+\)x\([\d, ]+\))?, Context \d+, Stream \d+(?:, Device (\d+))?.*, "
                     r"Invocations (\d+)\s*")
_DASHES = re.compile(r"\s*-{3,}(?: -{3,}){4}\s*")
_COLUMNS = ("Metric Name", "Metric Unit", "Minimum", "Maximum", "Average")
_KEY = ("name", "device")
_OF = ("least", "most", "mean")


def load(job: Job) -> Trace:
    """One Trace with ``kernel_stats``. Raises Unreadable if no kernel is in it."""
    text, fault = stream.read_all(job.path)
    header = HEADER.search(text)
    faults = Faults()
    rows = csv_table.read(text[header.start() :], faults=faults, table=job.path.name) if header else \
        _printed(text.decode("utf-8", "replace"))
    lines, rows = rows.height, _measured(rows, faults)
    if rows.is_empty():
        raise Unreadable(job.path, "is a summary of Nsight Compute without a kernel", "Print it again.")
    stats = _statistics(rows)
    devices = stats["device"].drop_nulls().unique().sort()
    info = Info(
        source=str(job.path), label=job.path.name.split(".")[0], format="ncu", tool="Nsight Compute", bytes=len(text),
        devices=tuple(Device(device) for device in devices), serialised=True,
        warnings=(*((fault,) if fault else ()), *faults.warnings()), facts={"tables": [("summary", lines, True)]},
    )
    return Trace(info, kernel_stats=schema.conform("kernel_stats", stats.lazy()))


def _printed(text: str) -> pl.DataFrame:
    """The rows of a summary printed as tables, one for each section of a kernel; columns are as wide as the dashes."""
    rows: list[tuple[str | None, ...]] = []
    kernel: tuple[str | None, ...] = (None, None, None)
    spans: list[tuple[int, int]] = []
    for line in text.splitlines():
        if ", Invocations " in line and (named := _KERNEL.fullmatch(line)):
            kernel, spans = (named[1], named[2], named[3]), []
        elif _DASHES.fullmatch(line):
            spans = [dashes.span() for dashes in re.finditer("-+", line)]
        elif spans and line.strip():
            cells = [line[start:end].strip() for start, end in spans]
            if cells[0] and cells[0] != _COLUMNS[0]:
                rows.append((*kernel, *(cell or None for cell in cells)))
        else:
            spans = []
    return pl.DataFrame(rows, schema=["Kernel Name", "Device", "Invocations", *_COLUMNS], orient="row",
                        schema_overrides=dict.fromkeys(("Kernel Name", "Device", "Invocations", *_COLUMNS), pl.String))


def _measured(rows: pl.DataFrame, faults: Faults) -> pl.DataFrame:
    """``name device count column rank least most mean`` of every row whose metric belongs to a column, in ns or as a
    fraction."""
    meanings = {name: meaning_of(name or "") for name in rows["Metric Name"].unique()}
    rows = rows.filter(pl.col("Metric Name").is_in([name for name, meaning in meanings.items() if meaning is not None]))
    frames = []
    for (metric, unit), part in rows.group_by("Metric Name", pl.col("Metric Unit").fill_null(""), maintain_order=True):
        meaning, (kept, factor) = meanings[metric], natural(str(unit))
        if meaning is None or (meaning.measure == "time") != (kept == "ns"):
            continue
        device = numbers(part["Device"], "id", faults, "the summary") if "Device" in part.columns else None
        frames.append(pl.DataFrame({
            "name": part["Kernel Name"], "device": device, "column": meaning.column, "rank": meaning.rank,
            "count": numbers(part["Invocations"], "count", faults, "the summary"),
            **{of: printed_numbers(part[name], faults) * (factor if kept == "ns" else 0.01)
               for of, name in zip(_OF, ("Minimum", "Maximum", "Average"), strict=True)},
        }, schema_overrides={"device": pl.Int64, "rank": pl.Int64}))
    empty = pl.DataFrame(schema={"name": pl.String, "device": pl.String, "column": pl.String, "rank": pl.Int64,
                                 "count": pl.Int64, **dict.fromkeys(_OF, pl.Float64)})
    named = [frame.with_columns(pl.format("GPU {}", "device").alias("device")) for frame in frames]
    return pl.concat([empty, *named]).drop_nulls(["name", "count"])


def _statistics(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of ``kernel_stats``: a kernel's grids together."""
    best = rows.filter(pl.col("rank") == pl.col("rank").min().over(*_KEY, "column"))
    weight = pl.col("count")
    sums = best.group_by(*_KEY, "column", maintain_order=True).agg(
        weight.sum(), pl.col("least").min(), pl.col("most").max(),
        total=pl.when(pl.col("mean").null_count() == 0).then((pl.col("mean") * weight).sum()),
    ).with_columns(mean=pl.col("total") / pl.col("count"))
    counts = sums.group_by(_KEY, maintain_order=True).agg(pl.col("count").max())
    times = sums.filter(pl.col("column") == "dur_ns")
    stats = counts.join(times.drop("column", "count"), on=_KEY, how="left", nulls_equal=True, maintain_order="left")
    for column in ("tensor", "dram"):
        share = sums.filter(pl.col("column") == column).select(*_KEY, pl.col("mean").alias(column))
        stats = stats.join(share, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
    whole = {ours: numbers(stats[name], "ns", Faults(), "") for ours, name in (
        ("total_ns", "total"), ("min_ns", "least"), ("max_ns", "most"))}
    kinds = {name: kernel_kind(name) for name in stats["name"].unique()}
    return stats.select(
        *_KEY, "count", pl.col("mean").alias("mean_ns"), "tensor", "dram",
        kind=pl.col("name").replace_strict(kinds, return_dtype=pl.String), **whole)
