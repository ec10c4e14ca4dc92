"""Aligns counters that another tool sampled during a trace with the trace's clock.

If both have absolute times, those are used. If the samples have a date without a time zone, or only a time of day, the
zone (and day) is chosen that maximises the overlap with the trace, and a warning says so. Without any of these, or if
the user passes ``--align``, the first sample is placed that many seconds after the start of the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from msgspec.structs import replace

from ..trace import TABLE_NAMES, Trace

_BESIDE = frozenset(("metrics", "allocations"))  # The only tables of a sidecar recording.
_QUARTER, _DAY = 900 * 10**9, 86_400 * 10**9
_ZONES = range(-48, 57)  # Time zones in quarter hours from UTC, −12:00 to +14:00.
_SPANS = (("kernels", "start_ns", "dur_ns"), ("host", "start_ns", "dur_ns"), ("cycles", "start_ns", "dur_ns"),
          ("profile", "cycle_start_ns", "cycle_ns"))  # fmt: skip


def is_sidecar(trace: Trace) -> bool:
    """Whether the recording is a sidecar: it has only counter and memory samples."""
    return trace.has("metrics") and not any(trace.has(name) for name in TABLE_NAMES if name not in _BESIDE)


def with_metrics(run: Trace, sidecars: Sequence[Trace], align_s: float | None = None) -> Trace:
    """The run with the sidecars' samples, on the run's clock if it can be determined.

    ``align_s`` places the earliest of their samples that many seconds after the start of the trace, ignoring the
    clocks; sidecars with absolute times keep their distance to each other.
    """
    import polars as pl

    tables, blocks, warnings = [run.metrics], [run.allocations], list(run.info.warnings)
    epochs = [trace.info.epoch_ns for trace in sidecars if trace.info.epoch_ns is not None]
    span = _span(run)
    for trace in sidecars:
        warnings += trace.info.warnings
        name = Path(trace.info.source).name
        if align_s is not None:
            epoch = trace.info.epoch_ns
            shift, warning = round(align_s * 1e9) + (0 if epoch is None else epoch - min(epochs)), ""
        else:
            shift, warning = _shift(run, trace, span, name)
        warnings += [warning] if warning else []
        tables.append(trace.metrics.with_columns(pl.col("ts_ns") + shift) if shift else trace.metrics)
        blocks.append(trace.allocations.with_columns(pl.col("start_ns") + shift) if shift else trace.allocations)
    files = [*run.info.facts.get("metric_files", ()), *(trace.info.source for trace in sidecars)]
    facts = {**run.info.facts, "metric_files": files}
    if memory := [sample for trace in (run, *sidecars) for sample in trace.info.facts.get("memory", ())]:
        facts["memory"] = memory
    info = replace(run.info, warnings=tuple(warnings), facts=facts)
    return replace(run, info=info, metrics=pl.concat(tables), allocations=pl.concat(blocks))


def together(traces: Sequence[Trace], align_s: float | None = None) -> Trace:
    """Samples of several tools, without a trace, as one run that begins with the first sample."""
    import polars as pl

    dated = [trace for trace in traces if trace.info.epoch_ns is not None and trace.info.facts.get("clock") != "local"]
    base = min(dated, key=lambda trace: trace.info.epoch_ns or 0) if dated else traces[0]
    run = with_metrics(base, [trace for trace in traces if trace is not base], align_s)
    first = run.metrics.select(pl.col("ts_ns").min()).collect().item()
    if not first:
        return run
    epoch = None if run.info.epoch_ns is None else run.info.epoch_ns + first
    return replace(
        run, info=replace(run.info, epoch_ns=epoch), metrics=run.metrics.with_columns(pl.col("ts_ns") - first)
    )


def _span(run: Trace) -> tuple[int, int]:
    """(0, end of the run), in ns from its start."""
    import polars as pl

    ends = [
        run.table(name).select((pl.col(start) + pl.col(length)).max()).collect(engine="streaming").item()
        for name, start, length in _SPANS
    ]
    last = max((end for end in ends if end is not None), default=None)
    return 0, last if last is not None else _last(run)


def _last(trace: Trace) -> int:
    import polars as pl

    last = trace.metrics.select(pl.col("ts_ns").max()).collect(engine="streaming").item()
    return int(last) if last is not None else 0


def _shift(run: Trace, trace: Trace, span: tuple[int, int], name: str) -> tuple[int, str]:
    """The offset in ns to add to the samples' times, and a warning about it ('' if none)."""
    zero, epoch, clock = run.info.epoch_ns, trace.info.epoch_ns, trace.info.facts.get("clock")
    of_day = trace.info.facts.get("time_of_day_ns")
    if clock == "none":
        return 0, f"{name} has no timestamps: its samples cannot be aligned with the trace"
    if zero is None or (epoch is None and of_day is None):
        return 0, (
            f"{name} and the trace do not both record absolute times: both are assumed to begin together "
            "(--align SECONDS sets when the counters begin)"
        )
    length = _last(trace)
    if epoch is not None and clock != "local":
        shift = epoch - zero
        return shift, "" if _overlap(shift, length, span) else _no_overlap_note(name, shift, length, span)
    start = epoch if epoch is not None else zero - zero % _DAY + (of_day or 0)
    days = (0,) if epoch is not None else (0, -1, 1)
    local = _zone_here(start)
    candidates = sorted(
        ((zone, day) for zone in _ZONES for day in days),
        key=lambda one: (one[0] * _QUARTER != local, one[0] != 0, abs(one[1]), abs(one[0])),
    )
    best = max(candidates, key=lambda one: _overlap(start - one[0] * _QUARTER + one[1] * _DAY - zero, length, span))
    shift = start - best[0] * _QUARTER + best[1] * _DAY - zero
    if not _overlap(shift, length, span):
        return start - local - zero, _no_overlap_note(name, start - local - zero, length, span)
    what = "times without a zone" if epoch is not None else "times of day"
    return shift, f"{name} has {what}: read as {_zone_name(best[0])}, where they overlap the trace"


def _overlap(shift: int, length: int, span: tuple[int, int]) -> int:
    """Overlap in ns of the trace and samples that span ``length`` ns from ``shift`` on; 0 if none, else at least 1."""
    first, last = max(shift, span[0]), min(shift + length, span[1])
    return last - first + 1 if last >= first else 0


def _no_overlap_note(name: str, shift: int, length: int, span: tuple[int, int]) -> str:
    gap, side = (shift - span[1], "after") if shift > span[1] else (span[0] - shift - length, "before")
    return (
        f"{name} was sampled {gap / 1e9:,.1f} s {side} the trace, by their clocks: no overlap "
        "(--align SECONDS sets when the counters begin)"
    )


def _zone_here(moment: int) -> int:
    """This machine's UTC offset at ``moment``, in ns."""
    try:
        offset = datetime.fromtimestamp(moment / 1e9).astimezone().utcoffset()
    except (OverflowError, OSError, ValueError):
        return 0
    return 0 if offset is None else round(offset.total_seconds() * 1e9)


def _zone_name(quarters: int) -> str:
    hours, minutes = divmod(abs(quarters) * 15, 60)
    return f"UTC{'-' if quarters < 0 else '+'}{hours:02}:{minutes:02}" if quarters else "UTC"
