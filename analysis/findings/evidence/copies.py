"""Copies and sets of the device with most exposed copy time: total time, exposed time, and how long the host waited for
them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ....loaders.schema import NAME, is_work
from ....loaders.trace import Trace
from ...core.copies import direction
from ...core.covered import covered
from ...core.derived import derived_value
from ...core.intervals import union
from ...core.run_labels import device_labels
from ...core.text import display
from ...idle.blocking_copies import PAGEABLE, blocking_copies
from ...kernels.sources import ACTIVITIES

_PLACE = re.compile(r"pageable|pinned", re.I)


class CopyTime(Struct, frozen=True):
    """Copies or sets of one device: number, total and exposed ns, bytes where recorded; names, most time first."""

    count: int = 0
    total_ns: int = 0
    exposed_ns: int = 0
    bytes: int | None = None
    names: tuple[str, ...] = ()

    @property
    def name(self) -> str | None:
        """The name with most time."""
        return next(iter(self.names), None)

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """The figures as a row of evidence."""
        return ({"name": self.name, "count": self.count, "total_ns": self.total_ns, "exposed_ns": self.exposed_ns},)


class Copies(Struct, frozen=True):
    """``pageable`` copies, and ``other`` copies between host and device with all sets; ``placed``: memory kinds are
    recorded. ``work_ns``, the time in which kernels ran, is the most copy time they could hide."""

    device: str | None
    window_ns: int
    pageable: CopyTime
    other: CopyTime
    placed: bool
    work_ns: int

    @property
    def who(self) -> str:
        """The device's name for sentences."""
        return display(self.device or "the device", 24)


class Blocking(Struct, frozen=True):
    """``count`` copies whose calls returned only when they were done, on the rank that waited longest; ``pageable`` of
    them use pageable memory. ``host_ns`` is the time in these calls, of it ``queued_ns`` waiting for earlier work and
    ``copy_ns`` copying; ``call`` is the call with most time; ``window_ns`` goes from first to last activity."""

    count: int
    pageable: int
    bytes: int
    host_ns: int
    queued_ns: int
    copy_ns: int
    window_ns: int
    call: str

    @property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """The figures as a row of evidence."""
        return ({name: getattr(self, name) for name in self.__struct_fields__},)


def blocking_of(run: Trace, piece: Trace) -> Blocking | None:
    """The blocking copies among the activities of a piece of the run; None if none are known."""
    copies = blocking_copies(run)
    if copies.is_empty():
        return None
    rows = piece.kernels.filter(is_work()).select(
        "index", "rank", "start_ns", "dur_ns", "kind").drop_nulls(["start_ns", "dur_ns"]).collect(engine="streaming")
    copies = copies.join(rows.select("index", "rank", "start_ns"), on=["index", "rank"], nulls_equal=True)
    if copies.is_empty():
        return None
    waited = copies.group_by("rank").agg(pl.col("call_ns").sum()).sort("call_ns", "rank", descending=[True, False])
    matching = pl.col("rank").eq_missing(pl.lit(waited["rank"][0], pl.Int64))
    copies, rows = copies.filter(matching), rows.filter(matching)
    starts, ends = _ends(rows)
    busy = union(*_ends(rows.filter(pl.col("kind") != "memcpy")))
    launched = copies["launch_ns"].to_numpy()
    queued = busy.within(launched, np.maximum(copies["start_ns"].to_numpy(), launched))
    call = copies.group_by(pl.col("call").cast(pl.String)).agg(pl.col("call_ns").sum()).sort(
        "call_ns", "call", descending=[True, False])["call"][0]
    pageable = copies["name"].cast(pl.String).str.contains(r"(?i)pageable")
    return Blocking(
        copies.height, int(pageable.sum()), int(copies["bytes"].sum()), int(copies["call_ns"].sum()), int(queued.sum()),
        int(copies["copy_ns"].sum()), int(ends.max() - starts.min()), str(call or "a call"),
    )


def copies_of(piece: Trace) -> Copies | None:
    """The copies of the device with most exposed copy time; None if no device has copies with timestamps."""
    return derived_value(piece, "copies", Copies | None, lambda: _copies_of(piece))


def _copies_of(piece: Trace) -> Copies | None:
    rows = (
        piece.kernels.filter(pl.col("kind").is_in(ACTIVITIES))
        .select("start_ns", "dur_ns", "name", "kind", "device", "rank", "bytes")
        .drop_nulls(["start_ns", "dur_ns"]).collect(engine="streaming")
    )
    if not rows["kind"].is_in(["memcpy", "memset"]).any():
        return None
    names = rows.filter(pl.col("kind").is_in(["memcpy", "memset"]))["name"].unique().cast(pl.String).drop_nulls()
    places = [(rank, None if device is None else str(device)) for rank, device in rows.select(
        "rank", pl.col("device").cast(pl.String)).unique(maintain_order=True).rows()]
    labels = device_labels(places)
    copies = [_of_device(labels[rank, device], group, names) for (rank, device), group in zip(
        places, rows.partition_by("rank", "device", maintain_order=True), strict=True)]
    return max(copies, key=lambda one: one.pageable.exposed_ns + one.other.exposed_ns)


def _of_device(device: str | None, rows: pl.DataFrame, names: pl.Series) -> Copies:
    kind = rows["kind"]
    ends = rows["start_ns"] + rows["dur_ns"]
    window = int(ends.to_numpy().max() - rows["start_ns"].to_numpy().min())

    def named(so: Callable[[str], object]) -> pl.Series:
        wanted = pl.Series([name for name in names.to_list() if so(name)], dtype=NAME)
        return rows["name"].is_in(wanted.implode()).fill_null(False)

    work = rows.filter(kind.is_in(["kernel", "collective"]))
    pageable = (kind == "memcpy") & named(PAGEABLE.search)
    with_host = named(lambda name: direction(name) in ("H2D", "D2H"))
    other = ((kind == "memcpy") & with_host & ~pageable) | (kind == "memset")
    return Copies(
        device, window, _time(rows.filter(pageable), work),
        _time(rows.filter(other), work), bool(((kind == "memcpy") & named(_PLACE.search)).any()),
        int(covered(work)["time_ns"].sum()),
    )


def _time(rows: pl.DataFrame, work: pl.DataFrame) -> CopyTime:
    if rows.is_empty():
        return CopyTime()
    longest = rows.group_by("name").agg(pl.col("dur_ns").sum()).cast({"name": pl.String}).sort(
        "dur_ns", "name", descending=[True, False])
    size = rows["bytes"].drop_nulls()
    return CopyTime(
        rows.height, int(rows["dur_ns"].sum()), int(covered(rows, without=work)["time_ns"].sum()),
        int(size.sum()) if len(size) else None,
        tuple(longest["name"].drop_nulls()),
    )


def _ends(rows: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    starts = rows["start_ns"].to_numpy()
    return starts, starts + np.maximum(rows["dur_ns"].to_numpy(), 0)
