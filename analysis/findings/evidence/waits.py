"""What the device that waited longest waited for: its idle time in five parts that do not overlap.

Every gap belongs to one part: input where most of it was input, allocation likewise, ``drained`` where the host had
waited for the device before it launched again, ``queued`` where the work was there and did not start, ``behind`` where
the host simply never got ahead. Without that wait the
host is earlier by its length and no more, so that of a longer gap the rest is ``behind`` too.
"""

from __future__ import annotations

from typing import Any

import polars as pl
from msgspec import Struct

from ....loaders.schema import NAME
from ....loaders.trace import Trace
from ...core.derived import derived_value
from ...core.launch_calls import CALLS
from ...idle.account import DeviceIdle, Idle, idle_of
from ...idle.causes import cause_of_call

BEHIND = ("python", "op", "runtime", "copy", "launch", "dispatch", "untraced")
"""Causes that end when the host launches earlier."""
SHOWN = 3
_NO_LINE = ("drained_by", "after")
"""Places that are told without the Python line of the launch: it is in them, or says nothing of why a device waits."""
DOUBT = 0.5
"""From this share of idle time without a recorded launch on nothing is said of its causes."""


class Site(Struct, frozen=True):
    """A place that gaps lead to: operator or call, Python line, how many gaps and how long together, ns."""

    who: str | None
    frame: str | None
    gaps: int
    idle_ns: int


class Part(Struct, frozen=True):
    """Some of the gaps of a device: how many, how long, and the places most of that leads to, largest first."""

    idle_ns: int = 0
    gaps: int = 0
    sites: tuple[Site, ...] = ()

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """The places as rows of evidence."""
        return tuple(
            {"who": site.who, "frame": site.frame, "gaps": site.gaps, "idle_ns": site.idle_ns} for site in self.sites
        )


class Waits(Struct, frozen=True):
    """The device with most idle time of all: its window and idle time in ns, idle time by cause, and the parts.

    ``doubt`` says why causes cannot be told; None where they can. ``allocations`` are calls that took most host time.
    """

    device: str | None
    devices: int
    window_ns: int
    idle_ns: int
    causes: dict[str, int]
    input: Part = Part()
    allocation: Part = Part()
    drained: Part = Part()
    behind: Part = Part()
    queued: Part = Part()
    doubt: str | None = None
    allocations: tuple[tuple[str, int], ...] = ()

    def share(self, ns: float) -> float:
        """A time as a share of the device's window."""
        return ns / self.window_ns if self.window_ns else 0.0


def waits_of(run: Trace, piece: Trace) -> Waits | None:
    """The waits of a run between the activities of a piece of it; None where no device activity has a time."""
    return derived_value(run, "waits", Waits | None, lambda: _found(run, run)) if piece is run else _found(run, piece)


def _found(run: Trace, piece: Trace) -> Waits | None:
    idle = idle_of(run, piece) if piece.has("kernels") else None
    if idle is None or not idle.devices:
        return None
    most = max(idle.devices, key=lambda device: device.idle_ns)
    gaps = idle.gaps.filter(
        pl.col("device").cast(pl.String).eq_missing(pl.lit(most.device, pl.String))
        & pl.col("rank").eq_missing(pl.lit(most.rank, pl.Int64))
    ).collect(engine="streaming")
    cause, drained = pl.col("cause").cast(pl.String), pl.col("drained_by").is_not_null()
    host = cause.is_in(BEHIND) | (cause == "sync")
    wait = pl.when(cause == "sync").then("dur_ns").otherwise(pl.col("drain_ns").fill_null(0))
    lost = pl.min_horizontal("dur_ns", wait)
    waited = gaps.filter(host & (drained | (cause == "sync"))).with_columns(dur_ns=lost)
    late = gaps.filter(cause.is_in(BEHIND)).with_columns(dur_ns=pl.col("dur_ns") - lost).filter(pl.col("dur_ns") > 0)
    return Waits(
        most.device, len(idle.devices), most.window_ns, most.idle_ns, most.causes,
        input=_part(gaps.filter(cause == "input"), "op"),
        allocation=_part(gaps.filter(cause == "allocation"), "call"),
        drained=_part(waited, "drained_by"), behind=_part(late, "op"),
        queued=_part(gaps.filter(cause == "queued").with_columns(dur_ns="cause_ns"), "after"),
        doubt=_doubt(idle, most), allocations=_allocations(piece),
    )


def _part(gaps: pl.DataFrame, who: str) -> Part:
    named = gaps.select(
        pl.coalesce(who, "call").alias("who"),
        (pl.lit(None, NAME) if who in _NO_LINE else pl.col("frame")).alias("frame"), "dur_ns",
    )
    key = "frame" if named["frame"].null_count() < named.height else "who"
    sums = named.drop_nulls(key).group_by(key).agg(gaps=pl.len(), idle_ns=pl.col("dur_ns").sum())
    largest = sums.sort("idle_ns", pl.col(key).cast(pl.String), descending=[True, False]).head(SHOWN)
    # who waited most often is asked of these alone: of all it takes ten times as long
    most = named.join(largest, on=key, how="semi").group_by(key).agg(
        pl.col("who").cast(pl.String).drop_nulls().mode().sort().first().alias("most"))
    rows = largest.join(most, on=key, how="left", maintain_order="left").to_dicts()
    sites = tuple(Site(row["most"], row.get("frame"), row["gaps"], row["idle_ns"]) for row in rows)
    return Part(int(gaps["dur_ns"].sum()), gaps.height, sites)


def _doubt(idle: Idle, device: DeviceIdle) -> str | None:
    if device.causes.get("unknown", 0) > DOUBT * device.idle_ns:
        return "what launched the device's activities is not recorded"
    if any("graph launches have no kernels" in note for note in idle.notes):
        return "graphs were launched whose kernels are not recorded"
    return None


def _allocations(piece: Trace) -> tuple[tuple[str, int], ...]:
    """The two calls that allocate, free or load and take most time of the host, with how often they were made."""
    sums = piece.host.filter(pl.col("kind").is_in(CALLS)).group_by(pl.col("name").cast(pl.String)).agg(
        count=pl.len(), total_ns=pl.col("dur_ns").sum(),
    ).sort("total_ns", "name", descending=[True, False]).collect(engine="streaming")
    found = [(name, count) for name, count, _ in sums.iter_rows() if name and cause_of_call(name) == "allocation"]
    return tuple(found[:2])
