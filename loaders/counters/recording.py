"""Builds a Trace from counter samples: wide or long tables become ``metrics``, and their clock goes into ``info``.

``info.epoch_ns`` is set if the file has absolute times. A date without a time zone is taken as UTC and
``facts["clock"]`` is ``local``; a time of day without a date is in ``facts["time_of_day_ns"]``. Both are resolved when
the samples are joined with a trace (``ingest.sidecar_metrics``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl
from msgspec import Struct, field

from .. import schema
from ..errors import Unreadable
from ..loader import Job
from ..recording import quantities
from ..recording.faults import NO_TIME, SINCE_BOOT, Faults
from ..trace import Device, Info, Trace
from .times import Times

COLUMNS = {"ts_ns": pl.Int64, "metric": pl.String, "device": pl.String, "value": pl.Float64, "unit": pl.String,
           "pid": pl.Int64, "kind": pl.String}  # fmt: skip
"""The columns of a reader's samples; times are as parsed by ``times``."""
_CLOCKS = {
    "utc": "since 1970", "local": "date and time without a zone", "day": "time of day without a date",
    "relative": "from its own start",
}


class Reading(Struct):
    """The result of a reader: ``samples`` in ``COLUMNS``, the clock of their times (None without), and warnings."""

    samples: pl.DataFrame
    clock: str | None = None
    tool: str | None = None
    devices: dict[str, str | None] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)
    untimed: str = ""
    rows: int = 0


class CounterColumn(Struct, frozen=True):
    """One column of a wide table: a counter's name and device (None: the row's), its values and their units."""

    metric: str
    values: pl.Series
    units: pl.Series
    device: str | None = None


def melted(
    tracks: Sequence[CounterColumn], times: Times | None, devices: pl.Series | None, pids: pl.Series | None
) -> pl.DataFrame:
    """A wide table unpivoted to ``COLUMNS``: one row per cell, with a null value for blank cells."""
    frames = []
    for track in tracks:
        height = len(track.values)
        device = devices if track.device is None and devices is not None else pl.repeat(
            track.device, height, dtype=pl.String, eager=True)
        frames.append(pl.DataFrame({
            "ts_ns": times.ns if times is not None else pl.repeat(None, height, dtype=pl.Int64, eager=True),
            "metric": pl.repeat(track.metric, height, dtype=pl.String, eager=True), "device": device,
            "value": track.values, "unit": track.units,
            "pid": pids if pids is not None else pl.repeat(None, height, dtype=pl.Int64, eager=True),
            "kind": pl.repeat(None, height, dtype=pl.String, eager=True),
        }, schema=COLUMNS))
    return pl.concat(frames) if frames else pl.DataFrame(schema=COLUMNS)


def reading_of(
    blocks: Sequence[tuple[pl.DataFrame, str | None]], tool: str, untimed: str, stray: int, faults: Faults
) -> Reading:
    """The Reading of a log's blocks (samples, clock); ``stray`` is the number of lines that are not rows of it."""
    clocks = {clock for _, clock in blocks}
    samples = pl.concat([rows for rows, _ in blocks]) if blocks else pl.DataFrame(schema=COLUMNS)
    devices: dict[str, str | None] = dict.fromkeys(map(str, samples["device"].drop_nulls().unique(maintain_order=True)))
    lost = [f"{stray:,} lines that are not table rows were left out."] if stray else []
    return Reading(samples, clocks.pop() if len(clocks) == 1 else None, tool, devices, lost, faults=faults,
                   untimed=untimed)


def trace(job: Job, format: str, reading: Reading, size: int) -> Trace:
    """The Trace of the samples, sorted by time, which starts at zero. Raises Unreadable if no sample has a value."""
    samples = quantities.checked(reading.samples, reading.faults, job.path.name)
    timed = reading.clock is not None
    samples = _without_zeros(samples, reading.faults, job.path.name) if timed else samples
    warnings = [*reading.warnings, *reading.faults.warnings()]
    if timed and (lost := samples.filter(pl.col("ts_ns").is_null()).height):
        warnings.append(f"{lost:,} of {samples.height:,} samples without a readable time were left out.")
        samples = samples.filter(pl.col("ts_ns").is_not_null())
    if samples["value"].is_null().all():
        raise Unreadable(job.path, "holds no counter sample", "Every value in it is blank or not a number.")
    first = samples["ts_ns"].min() if timed else None
    zero = first if isinstance(first, int) else 0
    if not timed:
        warnings.append(reading.untimed or "samples have no timestamps: they are shown in file order")
    clock = reading.clock or "none"
    info = Info(
        source=str(job.path), label=_label(job.path), format=format, tool=reading.tool, bytes=size,
        devices=tuple(Device(name, product) for name, product in reading.devices.items()),
        epoch_ns=zero if clock in ("utc", "local") else None, clock=_CLOCKS.get(clock), warnings=tuple(warnings),
        facts={
            "clock": clock, "columns_left_out": reading.left_out,
            "tables": [(job.path.name, reading.rows or reading.samples.height, True)],
            **({"time_of_day_ns": zero} if clock == "day" else {}),
        },
    )
    placed = samples.with_columns(pl.col("ts_ns") - zero).sort("ts_ns", maintain_order=True, nulls_last=True)
    return Trace(info, metrics=schema.conform("metrics", placed.lazy()))


def _without_zeros(samples: pl.DataFrame, faults: Faults, table: str) -> pl.DataFrame:
    """The samples, with no time where it is 0 among times since boot or since 1970."""
    zero = samples["ts_ns"] == 0
    others = samples["ts_ns"].filter(samples["ts_ns"] > 0).min()
    if not zero.any() or not isinstance(others, int) or others <= SINCE_BOOT:
        return samples
    faults.wrong(table, "time", NO_TIME, int(zero.sum()))
    return samples.with_columns(ts_ns=samples["ts_ns"].set(zero.fill_null(False), None))


def _label(path: Path) -> str:
    return path.name.split(".")[0] or path.name
