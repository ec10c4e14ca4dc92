"""Host calls: what the CUDA or HIP API, the driver and the operating system took, and what was waiting for a device."""

from __future__ import annotations

from typing import Any

from ...loaders.trace import Trace
from ..contract.column import Column, pair_columns
from ..contract.options import Options
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core import units
from ..cycles.paired import OneRun, paired
from ..details.recorded_rows import call_sections
from ..recorded.calls import calls_of

COLUMNS = (
    Column("name", "call", "text", "function, without the version of its interface that Nsight Systems adds", width=34,
           order=0, elastic=True, pinned=True, role="label", pairs="key"),
    Column("kind", "layer", "text", "runtime (CUDA or HIP API and libraries), driver, io or sched (operating system)",
           width=8, order=4, role="where", pairs="key"),
    Column("purpose", "for", "text", "launch, wait, copy, allocate, system or other, by its name and what it launched",
           width=9, order=3),
    Column("count", "count", "count", "calls", width=8, order=2, role="count", pairs="sum"),
    Column("total_ns", "total", "ns", "summed duration", width=10, order=0, role="time", pairs="sum"),
    Column("self_ns", "self", "ns", "of it outside calls inside it; empty where calls of a thread are not nested",
           width=10, order=4, pairs="sum"),
    Column("sync_ns", "waiting", "ns", "of it waiting for a device: calls that return when it is done, and copies of "
           "pageable memory", width=10, order=1, pairs="sum"),
    Column("mean_ns", "mean", "ns", "mean duration", width=9, order=7),
    Column("p50_ns", "p50", "ns", "median duration (nearest rank)", width=9, order=3),
    Column("p99_ns", "p99", "ns", "99% of the calls take at most this long (nearest rank)", width=9, order=4),
    Column("max_ns", "max", "ns", "longest call", width=9, order=5),
    Column("trend", "duration", "trend", "calls by duration, log axis from shortest to longest", width=12, order=6),
    Column("launches", "launches", "count", "device activities it launched; empty where not recorded", width=8,
           order=6, pairs="sum"),
    Column("threads", "threads", "count", "threads that called it", width=7, order=8),
)


def table(run: Trace) -> OneRun:
    """The calls of one run and totals about them. Raises CannotAnswer."""
    frame = calls_of(run)
    if frame is None:
        raise CannotAnswer(f"{run.info.label} holds no calls of the host to the CUDA or HIP API or to the system.")
    facts = {"functions": frame.height, **{name: int(frame[name].sum()) for name in ("count", "total_ns", "sync_ns")}}
    return OneRun(frame.select(column.name for column in COLUMNS), facts, sums=(_sentence(facts),))


def _sentence(facts: dict[str, Any]) -> str:
    return (
        f"{units.counted(facts['count'], 'call', 'calls')} of "
        f"{units.counted(facts['functions'], 'function', 'functions')} · {units.duration(facts['total_ns'])} on all "
        f"threads · {units.duration(facts['sync_ns'])} waiting for a device"
    )


def build(runs: Runs, options: Options) -> Answer:
    """Calls of one run by time, or of two side by side by the size of the change."""
    if len(runs) == 1:
        return table(runs[0]).answer()
    return paired(runs, options, COLUMNS, lambda run, options, side: table(run))


VIEW = View("calls", COLUMNS, build, pair_columns=pair_columns(COLUMNS), noun="calls", details=call_sections)
