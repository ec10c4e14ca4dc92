"""The times that a profiler itself reports for each collective of a rank: Ascend's ``communication.json``.

``wait``: waiting for other ranks; ``transit``: moving data; ``idle``: neither, the collective's tasks did not run.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ...loaders.trace import Trace
from ..contract.options import Options
from ..contract.sections import MOST, Section
from ..contract.view import Runs
from ..core import units
from ..core.text import display
from ..details.listed import sides

_FIELDS = {"elapsed_ns": "Elapse", "transit_ns": "Transit", "wait_ns": "Wait", "sync_ns": "Synchronization",
           "idle_ns": "Idle"}
_TOTAL = "Total"  # Some versions have an entry that is the sum of the others.


class RecordedTimes(Struct, frozen=True):
    """One collective of a step, times in ns; None for times that the version does not report."""

    step: str
    name: str
    group: str | None
    elapsed_ns: int
    transit_ns: int | None
    wait_ns: int | None
    sync_ns: int | None
    idle_ns: int | None


def recorded_times(run: Trace) -> list[RecordedTimes]:
    """Every collective for which the profiler reports a time, longest first."""
    result = []
    steps = run.info.facts.get("communication") or {}
    for step, collectives in steps.items():
        for full, times in collectives.items():
            name, _, group = full.partition("@")
            recorded = {field: _nanoseconds(times.get(f"{word} Time(ms)")) for field, word in _FIELDS.items()}
            elapsed = recorded.pop("elapsed_ns")
            if elapsed is not None and not name.startswith(_TOTAL):
                result.append(RecordedTimes(step, name, group or None, elapsed, **recorded))
    return sorted(result, key=lambda one: (-one.elapsed_ns, one.name))


def _nanoseconds(ms: Any) -> int | None:
    good = isinstance(ms, int | float) and 0 <= ms < 1e12
    return round(ms * 1e6) if good else None


def summed(times: list[RecordedTimes]) -> str:
    """The sums over all collectives in one line."""
    sums = {field: sum(getattr(one, field) or 0 for one in times) for field in _FIELDS}
    return (f"By the profiler's own figures: {units.duration(sums['elapsed_ns'])} in "
            f"{units.counted(len(times), 'collective', 'collectives')}, of it {units.duration(sums['transit_ns'])} "
            f"transit, {units.duration(sums['wait_ns'])} wait, {units.duration(sums['idle_ns'])} idle.")


def section(runs: Runs, options: Options) -> list[Section]:
    """The longest collectives of each run."""
    result = []
    for _, run, tail in sides(runs, options):
        rows = tuple(
            (display(one.name, 40), *(units.MISSING if ns is None else units.duration(ns) for ns in (
                one.elapsed_ns, one.transit_ns, one.wait_ns, one.idle_ns)))
            for one in recorded_times(run)[:MOST])
        if rows:
            result.append(Section(f"The profiler's own figures{tail}", rows,
                                ("collective", "elapsed", "transit", "wait", "idle")))
    return result
