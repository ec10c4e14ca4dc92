"""The sums a history needs of one run: a few kilobytes, so that a run is read once and its trace can be deleted.

Per kind of cycle (step, prefill, decode): the time per cycle of each kernel, collective, copy, operator and idle cause;
for a run without cycles, of the whole recording. Sums are over whole cycles after warm-up, divided by their number, for
a job per cycle and rank, as in every other view.
"""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
from msgspec import Struct, json

from ...loaders.trace import Trace
from ..contract.options import Options
from ..core.derived import code_hash
from ..cycles.statement import cycle_facts
from ..cycles.whole import WholeCycles, whole_cycles
from ..diff.same_work import SHAPED, launching_operators
from ..diff.sequence import unit_of
from ..idle.by_cycle import idle_by_cycle
from ..kernels.sources import kernels_of
from ..operators.tree import operators_of
from ..work.peaks import BadPeaks
from ..work.roofline import per_cycle
from .steps import COLLECTIVE, COPY, IDLE, KERNEL, OP

RECORDING = "recording"
"""The kind of the only part of a run without cycles."""
_KINDS = {"kernel": KERNEL, "collective": COLLECTIVE, "memcpy": COPY, "memset": COPY}
UNKNOWN_IDLE = "unknown"


class Sum(Struct, frozen=True):
    """Per cycle: time in ns, and launches or calls (0 for idle time)."""

    ns: float
    count: float = 0.0


class KindSums(Struct, frozen=True):
    """The cycles of one kind: the number summed, mean cycle time, busy and idle time of a device per cycle, FLOPs
    (each None where unknown); ``sums`` by kind of series and recorded name. ``shapes``: calls by operator and recorded
    shapes, of the operators that launched the middle cycle; empty where fewer than half of them have shapes."""

    cycle_kind: str
    cycles: int
    cycle_ns: float | None
    busy_ns: float | None
    idle_ns: float | None
    flops: float | None
    sums: dict[str, dict[str, Sum]]
    shapes: dict[str, dict[str, int]] = {}


class RunSums(Struct, frozen=True):
    """One run. ``recorded`` is its time, ISO 8601 in UTC, None if unknown; ``hardware`` the device models it ran on;
    ``cycle_source`` where its cycles come from."""

    source: str
    label: str
    recorded: str | None
    hardware: tuple[str, ...]
    cycle_source: str | None
    ranks: int
    parts: tuple[KindSums, ...]
    warnings: tuple[str, ...] = ()


def cache_name() -> str:
    """The name under which the sums of a recording are cached; it changes with our code."""
    return f"history-{code_hash()}"


def packed_sums(run: Trace) -> bytes:
    """``sums_of`` as it is cached."""
    return packed(sums_of(run))


def packed(sums: RunSums) -> bytes:
    """The sums as JSON."""
    return json.encode(sums)


def unpacked_sums(data: bytes | str) -> RunSums:
    """The inverse of ``packed``. Raises msgspec's errors for anything else."""
    return json.decode(data, type=RunSums)


def sums_of(run: Trace) -> RunSums:
    """Compute the sums of a run. Raises whatever the cycle, kernel and idle analyses raise."""
    options = Options()
    some = whole_cycles(run, options, "a")
    info = run.info
    recorded = None
    if info.epoch_ns:
        recorded = f"{datetime.fromtimestamp(info.epoch_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"
    return RunSums(
        info.source.encode(errors="replace").decode(), info.label, recorded,
        tuple(sorted({one.name for one in info.devices if one.name})),
        cycle_facts((run,), options)["cycles"]["source"] if some else None, max(1, len(info.ranks)),
        tuple(_of_cycles(one) for one in some) if some else (_of_recording(run),), info.warnings,
    )


def _of_cycles(cycles: WholeCycles) -> KindSums:
    count, frame = cycles.frame.height, cycles.frame
    idle = idle_by_cycle(cycles.run, frame, cycles.times)
    places = idle.select("cycle", "rank", "device").n_unique()
    causes = {
        cause: Sum(ns / places)
        for cause, ns in idle.group_by(pl.col("cause").cast(pl.String)).agg(pl.col("dur_ns").sum()).sort("cause").rows()
    }
    sums = _sums(cycles.part, count)
    if not sums and cycles.only_sums:  # totals exist for the whole recording only
        sums, count = _sums(cycles.run, cycles.all_of_run().frame.height), cycles.all_of_run().frame.height
    if set(causes) - {UNKNOWN_IDLE}:
        sums[IDLE] = causes
    idle_ns = sum(one.ns for one in causes.values()) if places else None
    length, busy = frame["step_ns"].mean(), frame.select((pl.col("busy_ns") + pl.col("other_ns")).mean()).item()
    cycle_ns = float(length) if isinstance(length, int | float) else None
    busy_ns = busy if idle_ns is not None else None
    return KindSums(
        cycles.kind, count, cycle_ns, busy_ns, idle_ns, _flops(cycles.run), sums, _shapes(cycles.run, cycles.kind))


def _of_recording(run: Trace) -> KindSums:
    sums = _sums(run, max(1, len(run.info.ranks)))
    return KindSums(RECORDING, 1, None, None, None, None, sums, _shapes(run, None))


def _shapes(run: Trace, kind: str | None) -> dict[str, dict[str, int]]:
    """Calls of the middle cycle of that kind (None: of the recording) by operator and shapes."""
    unit = unit_of(run, Options(), "a", kind) if run.has("host.shapes") else None
    rows = launching_operators(run, unit) if unit is not None else []
    calls = run.host.select("name", "shapes").with_row_index("row").filter(
        pl.col("row").is_in(pl.Series(rows, dtype=pl.get_index_type()).implode())).select(
        pl.col("name", "shapes").cast(pl.String)).collect(engine="streaming")
    result: dict[str, dict[str, int]] = {}
    if calls["shapes"].count() >= SHAPED * calls.height:
        for name, shapes, count in calls.drop_nulls().group_by("name", "shapes").len().sort("name", "shapes").rows():
            result.setdefault(name, {})[shapes] = count
    return result


def _sums(run: Trace, cycles: int) -> dict[str, dict[str, Sum]]:
    """The totals of a run divided by ``cycles``; kinds without any time are left out."""
    result: dict[str, dict[str, Sum]] = {}

    def add(kind: str, name: str, ns: float, count: float) -> None:
        before = result.setdefault(kind, {}).get(name, Sum(0.0))
        result[kind][name] = Sum(before.ns + ns / cycles, before.count + count / cycles)

    kernels = kernels_of(run, "name")
    if kernels is not None:
        rows = kernels.frame.select(pl.col("kind", "name").cast(pl.String), "total_ns", "count").drop_nulls("name")
        for kind, name, ns, count in rows.filter(pl.col("total_ns") > 0).sort("kind", "name").rows():
            add(_KINDS.get(kind, KERNEL), name, ns, count or 0)
    operators = operators_of(run)
    table = operators.frame.lazy() if operators is not None else run.operators
    rows = table.select(pl.col("name").cast(pl.String), "device_self_ns", "calls").drop_nulls("name").collect()
    for name, ns, count in rows.filter(pl.col("device_self_ns") > 0).sort("name").rows():
        add(OP, name, ns, count or 0)
    return result


def _flops(run: Trace) -> float | None:
    """FLOPs per cycle (of any kind) and rank; None if operator shapes are not recorded."""
    if not run.has("host.shapes"):
        return None
    try:
        return per_cycle(run, Options()).flops
    except BadPeaks:
        return None
