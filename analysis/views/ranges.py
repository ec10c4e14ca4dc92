"""Ranges: how long what somebody marked took on the host, and the device time that was launched inside it."""

from __future__ import annotations

from typing import Any

from ...loaders.trace import Trace
from ..contract.column import Column, pair_columns
from ..contract.options import Options
from ..contract.view import Answer, CannotAnswer, Runs, View
from ..core import units
from ..cycles.paired import OneRun, paired
from ..details.recorded_rows import range_sections
from ..recorded.ranges import ranges_of

COLUMNS = (
    Column("name", "range", "text", "what was marked, as recorded", width=34, order=0, elastic=True, pinned=True,
           role="label", pairs="key"),
    Column("count", "count", "count", "ranges of that name", width=7, order=2, role="count", pairs="sum"),
    Column("device_ns", "device", "ns", "device time of the activities launched inside it, on its thread; empty where "
           "launches are not recorded", width=10, order=0, role="time", pairs="sum"),
    Column("share", "share", "fraction", "of all device time", width=6, order=3, role="share"),
    Column("busy_ns", "busy", "ns", "time in which at least one of these activities ran, summed over devices",
           width=10, order=3, pairs="sum"),
    Column("device_self_ns", "device self", "ns", "of the device time what was launched in no range inside it",
           width=11, order=4, pairs="sum"),
    Column("elsewhere_ns", "meanwhile", "ns", "device time launched meanwhile by threads of the process that were in "
           "no range, such as a backward pass", width=10, order=5, pairs="sum"),
    Column("launches", "launches", "count", "activities launched inside it", width=8, order=5, pairs="sum"),
    Column("total_ns", "host", "ns", "summed duration on the host", width=10, order=0, role="time", pairs="sum"),
    Column("self_ns", "host self", "ns", "of it outside ranges inside it", width=10, order=4, pairs="sum"),
    Column("p50_ns", "p50", "ns", "median duration on the host (nearest rank)", width=9, order=6),
    Column("max_ns", "max", "ns", "longest on the host", width=9, order=7),
    Column("trend", "host time", "trend", "ranges by duration, log axis from shortest to longest", width=12, order=8),
    Column("threads", "threads", "count", "threads it was marked on", width=7, order=8),
)


def table(run: Trace) -> OneRun:
    """The ranges of one run, totals about them, and notes. Raises CannotAnswer."""
    found = ranges_of(run)
    if found is None:
        raise CannotAnswer(
            f"{run.info.label} holds no ranges; NVTX or ROCTX ranges and record_function marks are such."
        )
    facts = {"ranges": found.frame.height, "count": int(found.frame["count"].sum()), "device_ns": found.device_ns,
             "unlaunched_device_ns": found.unlaunched_ns}
    notes: tuple[str, ...] = ()
    if found.device_ns and found.unlaunched_ns == found.device_ns:
        notes = ("No launch call is recorded for any device activity, so device time belongs to no range.",)
    elif found.device_ns and found.unlaunched_ns:
        lost = units.percent(100 * found.unlaunched_ns / found.device_ns)
        notes = (f"{lost} of the device time has no recorded launch and belongs to no range.",)
    return OneRun(found.frame.select(column.name for column in COLUMNS), facts, notes=notes, sums=(_sentence(facts),))


def _sentence(facts: dict[str, Any]) -> str:
    text = f"{units.count(facts['count'])} ranges of {units.counted(facts['ranges'], 'name', 'names')}"
    return text + (f" · {units.duration(facts['device_ns'])} on the devices in all" if facts["device_ns"] else "")


def build(runs: Runs, options: Options) -> Answer:
    """Ranges of one run by device time, or of two side by side by the size of the change."""
    if len(runs) == 1:
        return table(runs[0]).answer()
    return paired(runs, options, COLUMNS, lambda run, options, side: table(run))


VIEW = View("ranges", COLUMNS, build, pair_columns=pair_columns(COLUMNS), noun="ranges", details=range_sections)
