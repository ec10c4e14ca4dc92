"""Nsight Compute: the output of ``ncu`` as CSV (long or wide) or text, read into the same ``kernels`` table.

``ncu`` replays kernels one by one with clock control: the order of launches and each duration are valid, but their sum
is not wall time, and there are no timestamps. Hence ``start_ns`` is null and ``Info.serialised`` true.
Every metric is kept by launch and section, and so are the results of NVIDIA's rules. Pages of one profile printed to
separate files are one recording.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import Unreadable
from ..ingest.stream import Source, head, line_blocks
from ..loader import FormatLoader, Job
from ..trace import Trace
from . import csv_pages, summary, text_report

MESSAGE = re.compile(rb"^==PROF== (Connected to process|Profiling )", re.MULTILINE)
TEXT_LAUNCH = re.compile(rb"^ +\S[^\n]*, Context \d+, Stream \d+[^\n]*\n\s+Section: ", re.MULTILINE)
_PAGE = re.compile(r"(?P<name>.+)\.(?P<page>details|metrics|raw|source|section_\w+)\.csv(?P<zip>\.gz|\.zst)?\Z")
"""File names of the pages of one profile, which all describe the same launches."""
COLLECT = "Print the metrics with `ncu --csv --metrics gpu__time_duration.sum,…` (or `ncu --import FILE --csv`)."


class NsightCompute(FormatLoader):
    """The loader of Nsight Compute's printed output."""

    name = "ncu"
    title = "Nsight Compute: ncu --csv (long or raw page) or text output, with its messages or without"
    suffixes = (".csv", ".txt", ".log")
    version = 10
    fills = ("kernels", "launch_metrics", "launch_rules", "kernel_stats")
    one_recording = True

    def sniff(self, head: bytes) -> bool:
        """A CSV header, a launch with its section, or the tool's own messages, which may be longer than ``head``."""
        return any(pattern.search(head) for pattern in (
            csv_pages.HEADER, summary.HEADER, TEXT_LAUNCH, MESSAGE))

    def companions(self, path: Path) -> tuple[Path, ...]:
        """The other pages of the same profile."""
        match = _PAGE.match(path.name)
        if match is None:
            return ()
        pages = [(file, _PAGE.match(file.name)) for file in sorted(path.parent.iterdir())]
        return tuple(
            file for file, page in pages
            if page is not None and page["name"] == match["name"] and file.name != path.name and file.is_file()
        )

    def leads(self, path: Path) -> bool:
        """Whether the profile is opened through this page: the details page, else the first page by name."""
        pages = path, *self.companions(path)
        return path == min(pages, key=lambda page: (".details.csv" not in page.name, page.name))

    def load(self, job: Job) -> tuple[Trace, ...]:
        """One Trace with ``kernels`` in launch order. Raises Unreadable if there is no launch."""
        if summary.HEADER.search(first := head(job.path)) or summary.PRINTED.search(first):
            return (summary.load(job),)
        records = csv_pages.NcuRecords()
        files = (job.path, *self.companions(job.path))
        size, fault = 0, None
        for file in files:
            table, text = csv_pages.CsvPagesReader(), text_report.TextReportReader()
            with Source(file) as source:
                for block in line_blocks(source):
                    table.feed(block)
                    if not table.begun:
                        text.feed(block)
                    job.progress(source.position, source.size, table.records.count() + text.records.count())
                size, fault = size + source.size, fault or source.fault
            records.add(table.records if table.records.count() else text.finish())
        if not records.count():
            raise Unreadable(job.path, "holds messages of Nsight Compute, but no results", COLLECT)
        trace = csv_pages.trace_of(job.path, self.name, records, size, fault)
        return (trace.warn(f"read together: {len(files)} pages of one profile") if len(files) > 1 else trace,)


LOADER = NsightCompute()
