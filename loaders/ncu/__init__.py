"""Nsight Compute: what ``ncu`` prints, as CSV (long or wide) or as text, to the same ``kernels`` table.

``ncu`` replays kernels one by one with its clocks under control: the order of launches and the latency of each are
true, their sum is no wall time, and there are no timestamps. Hence start_ns is null and ``Info.serialised`` true.
Metrics that no column has a place for are named in ``Info.facts``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from .. import schema
from ..collective_names import kernel_kind
from ..errors import Unreadable
from ..ingest.stream import Source, line_blocks
from ..loader import FormatLoader, Job
from ..trace import Device, Info, Trace
from . import csv_pages, text_report
from . import metrics as ncu_metrics

MESSAGE = re.compile(rb"^==PROF== (Connected to process|Profiling )", re.MULTILINE)
TEXT_LAUNCH = re.compile(rb"^ +\S[^\n]*, Context \d+, Stream \d+[^\n]*\n\s+Section: ", re.MULTILINE)
COLLECT = "Print the metrics with `ncu --csv --metrics gpu__time_duration.sum,…` (or `ncu --import FILE --csv`)."


class NsightCompute(FormatLoader):
    """The loader of Nsight Compute's print-outs."""

    name = "ncu"
    title = "Nsight Compute: ncu --csv (long or raw page) or text output, with its messages or without"
    suffixes = (".csv", ".txt", ".log")
    version = 2

    def sniff(self, head: bytes) -> bool:
        """A CSV header, a launch with its section, or the tool's own messages, which may go on for longer than this."""
        text = head.removeprefix(b"\xef\xbb\xbf")
        return any(pattern.search(text) for pattern in (csv_pages.HEADER, TEXT_LAUNCH, MESSAGE))

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``kernels`` in the order of launches."""
        table, text = csv_pages.CsvPagesReader(), text_report.TextReportReader()
        with Source(job.path) as source:
            for block in line_blocks(source):
                table.feed(block)
                if not table.begun:
                    text.feed(block)
                job.progress(source.position, source.size, table.found.count() + text.found.count())
            size, ended = source.size, source.ended
        found = table.found if table.found.count() else text.found
        if not found.count():
            raise Unreadable(job.path, "holds messages of Nsight Compute, but no results", COLLECT)
        launches = pl.concat(found.launches).unique(list(ncu_metrics.KEY), keep="first", maintain_order=True)
        kernels = _kernels(launches, pl.concat(found.samples))
        info = Info(
            source=str(job.path),
            label=job.path.name.split(".")[0],
            format=self.name,
            tool="Nsight Compute",
            bytes=size,
            devices=_devices(launches),
            serialised=True,
            warnings=tuple(_warnings(found, kernels, ended)),
            facts={"unused_metrics": sorted(found.unused)},
        )
        return (Trace(info, kernels=schema.conform("kernels", kernels.lazy())),)


def _kernels(launches: pl.DataFrame, samples: pl.DataFrame) -> pl.DataFrame:
    """Launches with what was measured of them, in the order of the file."""
    frame = ncu_metrics.measured(launches, samples)
    kinds = {name: kernel_kind(name) for name in launches["name"].unique()}
    return frame.with_row_index("index").with_columns(
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


def _warnings(found: csv_pages.NcuRecords, kernels: pl.DataFrame, ended: str | None) -> Iterator[str]:
    if ended:
        yield f"The file is not whole: {ended}."
    if found.malformed:
        yield f"{found.malformed:,} lines name no kernel and were left out."
    if missing := kernels["dur_ns"].null_count():
        yield f"{missing:,} of {kernels.height:,} launches have no duration: gpu__time_duration was not collected."


LOADER = NsightCompute()
