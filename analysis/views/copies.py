"""Copies: what went between host and devices and within them, how much, how fast, and from which memory."""

from __future__ import annotations

from typing import Any

from ...loaders.trace import Trace
from ..contract.column import Column, pair_columns
from ..contract.options import Options
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core import units
from ..cycles.paired import OneRun, paired
from ..details.recorded_rows import copy_sections
from ..recorded.copies import copies_of

COLUMNS = (
    Column("kind", "kind", "text", "memcpy or memset", width=7, order=0, pinned=True, role="where", pairs="key"),
    Column("direction", "direction", "text", "H2D, D2H, D2D (within a device), P2P (between devices) or H2H; empty "
           "where not recorded, and of sets", width=9, order=0, pinned=True, role="label", pairs="key"),
    Column("memory", "memory", "text", "pageable, pinned or managed where recorded of one side", width=9, order=1,
           role="where", pairs="key"),
    Column("device", "device", "text", "device as recorded", width=8, order=3, role="where", pairs="key"),
    Column("count", "count", "count", "copies or sets", width=8, order=1, role="count", pairs="sum"),
    Column("total_ns", "total", "ns", "summed duration", width=10, order=0, role="time", pairs="sum"),
    Column("exposed_ns", "exposed", "ns", "time in which no kernel ran on the same device", width=10, order=2,
           pairs="sum"),
    Column("bytes", "bytes", "bytes", "summed size; empty where not recorded", width=9, order=1, pairs="sum"),
    Column("mean_bytes", "mean size", "bytes", "mean size", width=9, order=5),
    Column("rate", "rate", "rate", "bytes over summed duration", width=10, order=2),
    Column("rate_p50", "median", "rate", "median of the rates of single copies", width=10, order=3),
    Column("rate_max", "best", "rate", "highest rate of a single copy", width=10, order=3),
    Column("p50_ns", "p50", "ns", "median duration", width=9, order=5),
    Column("max_ns", "max", "ns", "longest", width=9, order=6),
)


def table(run: Trace) -> OneRun:
    """The copies of one run and totals about them. Raises CannotAnswer."""
    frame = copies_of(run)
    if frame is None:
        raise CannotAnswer(f"{run.info.label} holds no copies or sets of memory.")
    known = frame["bytes"].drop_nulls()
    facts = {"count": int(frame["count"].sum()), "total_ns": int(frame["total_ns"].sum()),
             "bytes": int(known.sum()) if len(known) else None}
    return OneRun(frame.select(column.name for column in COLUMNS), facts, sums=(_sentence(facts),))


def _sentence(facts: dict[str, Any]) -> str:
    size = f" · {units.size(facts['bytes'])}" if facts["bytes"] is not None else " · sizes not recorded"
    return (f"{units.counted(facts['count'], 'copy or set', 'copies and sets')} · "
            f"{units.duration(facts['total_ns'])}{size}")


def build(runs: Runs, options: Options) -> Answer:
    """Copies of one run by time, or of two side by side by the size of the change."""
    if len(runs) == 1:
        return table(runs[0]).answer()
    return paired(runs, options, COLUMNS, lambda run, options, side: table(run))


VIEW = View("copies", COLUMNS, build, pair_columns=pair_columns(COLUMNS), noun="copies", details=copy_sections)
