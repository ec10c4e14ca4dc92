"""Device activities with timestamps as arrays, the windows of a breakdown, and how well each device was used in them.

The gauges are those of torch_tb_profiler, as fractions: utilisation is the share of time in which at least one kernel
runs; SM efficiency weights it with the share of SMs for which the running kernels have blocks; occupancy and the share
of tensor cores are means over kernel time, the latter from kernel names, and unknown where these are ambiguous. Windows
are those of the cycles recorded whole, else the whole recording; ``cycles.detection`` determines both.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ...loaders.trace import Device, Trace
from ..core.batches import ABSENT, ids
from ..core.callers import operator_rows
from ..core.intervals import Intervals, Ints, union
from ..core.quantiles import codes, dense
from ..cycles.assignment import WINDOW
from ..kernels.sources import ACTIVITIES
from ..kernels.tensor_cores import UNSURE, by_tensor_cores

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.intp]  # Row indices.


class Activities(Struct, frozen=True):
    """Device activities in recorded order; times in ns, ``occupancy`` and ``blocks_per_sm`` NaN where not recorded."""

    starts: Ints
    ends: Ints
    kind: npt.NDArray[np.int64]
    device: npt.NDArray[np.int64]
    devices: tuple[str | None, ...]
    communicates: Mask
    on_tensor_cores: Mask
    may_use_them: Mask
    blocks_per_sm: Floats
    occupancy: Floats
    rank: Ints

    def of(self, *kinds: str) -> Mask:
        """Mask of the activities of these kinds."""
        return np.isin(self.kind, [ACTIVITIES.index(kind) for kind in kinds])

    @property
    def kernels(self) -> Mask:
        """Mask of the kernels, collectives included."""
        return self.of("kernel", "collective")

    def union(self, some: Mask | Places) -> Intervals:
        """Union of the selected activities' intervals."""
        return union(self.starts[some], self.ends[some])


_NOBODY = np.zeros(0, dtype=np.int64)


def activities_of(run: Trace, asks: Ints = _NOBODY) -> Activities | None:
    """The timed device activities of the run; None if there are none. Activities of one of the operators ``asks`` (rows
    of the host table, of operators that request a collective) count as communication, whatever their name."""
    asked = pl.Series(np.isin(operator_rows(run), asks)) if len(asks) else pl.lit(False)
    rows = (
        run.kernels.select(
            "start_ns", "dur_ns", "name", "kind", "device", "blocks_per_sm", "occupancy", "rank", asked.alias("asked"))
        .filter(pl.col("kind").is_in(ACTIVITIES)).drop_nulls(["start_ns", "dur_ns"]).collect(engine="streaming")
    )
    if rows.is_empty():
        return None
    starts = rows["start_ns"].to_numpy()
    devices, device = _numbered(rows["device"])
    kinds, kind = _numbered(rows["kind"])
    kind = np.array([ACTIVITIES.index(str(name)) for name in kinds], dtype=np.int64)[kind]
    return Activities(
        starts, starts + np.maximum(rows["dur_ns"].to_numpy(), 0), kind, device, devices,
        ((rows["kind"] == "collective") | rows["asked"]).to_numpy(),
        *by_tensor_cores(rows["name"]),
        rows["blocks_per_sm"].to_numpy(), rows["occupancy"].to_numpy(), ids(rows["rank"]),
    )


def _numbered(column: pl.Series) -> tuple[tuple[str | None, ...], npt.NDArray[np.int64]]:
    """The distinct names in natural order, and each row's index into them."""
    number, first = dense(codes(column))
    names = column[first].cast(pl.String).to_list()
    order = sorted(range(len(names)), key=lambda at: (names[at] is None, _natural(names[at] or "")))
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    return tuple(names[at] for at in order), rank[number]


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key that puts GPU 10 after GPU 2."""
    return [(int(part or 0), text) for text, part in re.findall(r"(\D*)(\d*)", name)]


class Windows(Struct, frozen=True):
    """Windows ``starts[i]..ends[i]`` (ns), sorted; ``contiguous``: no cycle was left out between them. ``whole_run``:
    the single window of a recording without cycles."""

    starts: Ints
    ends: Ints
    contiguous: bool = True
    whole_run: bool = False

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def length(self) -> int:
        """Total time of the windows, ns."""
        return int((self.ends - self.starts).sum())

    @property
    def time(self) -> Intervals:
        """The time they cover: from first start to last end if contiguous, else the union of the windows."""
        if self.contiguous and len(self):
            return union(self.starts[:1], self.ends[-1:])
        return union(self.starts, self.ends)


class WindowSums(Struct, frozen=True):
    """Windows known only by their number and total time (ns)."""

    count: int
    length: int
    whole_run: bool = False

    def __len__(self) -> int:
        return self.count


def of_cycles(cycles: pl.DataFrame, recorded: bool) -> Windows:
    """The windows of the complete cycles among these cycles of one rank; only ``recorded`` steps may be contiguous."""
    rows = cycles.drop_nulls(WINDOW[0]).sort(WINDOW[0], maintain_order=True)
    whole = rows["complete"].fill_null(True).to_numpy()
    at = np.flatnonzero(whole)
    starts, ends = (rows[name].to_numpy()[at] for name in WINDOW)
    return Windows(starts, ends, recorded and bool((np.diff(at) == 1).all()))


_RECORDER = ("overhead",)
"""Kinds of host slices that the recorder made about itself."""


def _extents(run: Trace) -> list[tuple[int, int]]:
    """First start and last end of host slices, counters and samples of the processor, ns, of each that has times."""
    start, length = pl.col("start_ns"), pl.col("dur_ns")
    bounds = [
        run.host.filter(~pl.col("kind").is_in(_RECORDER)).select(start.min().alias("a"), _last(start, length)),
        run.metrics.select(pl.col("ts_ns").min().alias("a"), _last(pl.col("ts_ns"), length)),
        run.call_chains.select(start.min().alias("a"), _last(start, length)),
    ]
    rows = [rows.collect(engine="streaming").row(0) for rows in bounds]
    return [(first, last) for first, last in rows if first is not None and last is not None]


def _last(start: pl.Expr, length: pl.Expr) -> pl.Expr:
    return pl.max_horizontal((start + length).max(), start.max()).alias("b")


def of_recording(run: Trace, activities: Activities | None) -> Windows | None:
    """One window around everything that was recorded in time; None without timestamps."""
    extents = _extents(run)
    if activities is not None:
        extents.append((int(activities.starts.min()), int(activities.ends.max())))
    if not extents:
        return None
    first, last = min(first for first, _ in extents), max(last for _, last in extents)
    return Windows(np.array([first]), np.array([last]), whole_run=True)


GAUGES = ("utilisation", "sm_efficiency", "occupancy", "tensor_share")
"""The gauges of a device: fractions 0-1, None where not recorded."""


def gauges(activities: Activities, window: Intervals, devices: tuple[Device, ...]) -> list[dict[str, Any]]:
    """One dict per device that ran kernels: ``device``, product ``name``, the ``GAUGES`` and the times behind them."""
    products = {device.id: device.name for device in devices}
    rows: list[dict[str, Any]] = []
    if not window.length:
        return rows
    kernels = np.flatnonzero(activities.kernels)
    order = np.argsort(activities.device[kernels], kind="stable")  # one sort for all devices
    kernels, numbers = kernels[order], activities.device[kernels[order]]
    for own in np.split(kernels, np.flatnonzero(np.diff(numbers)) + 1) if len(kernels) else ():
        device = activities.devices[activities.device[own[0]]]
        inside = np.maximum(window.within(activities.starts[own], activities.ends[own]), 0)
        busy = activities.union(own) & window
        total = int(inside.sum())
        rows.append({
            "device": device, "rank": None if (rank := int(activities.rank[own[0]])) == ABSENT else rank,
            "name": products.get(device or ""),
            "utilisation": busy.length / window.length,
            "sm_efficiency": _sm_efficiency(activities, own, window),
            "occupancy": _mean(activities.occupancy[own], inside),
            **_on_tensor_cores(activities, own, inside),
            "busy_ns": busy.length, "kernel_ns": total, "window_ns": window.length,
        })
    return rows


def _on_tensor_cores(activities: Activities, own: Places, inside: Ints) -> dict[str, float | None]:
    """``tensor_share`` of the kernel time, None where kernel names are ambiguous; ``tensor_least``, its lower bound."""
    total = int(inside.sum())
    used, unsure = (int(inside[mask[own]].sum()) for mask in (activities.on_tensor_cores, activities.may_use_them))
    least = used / total if total else 0.0
    return {"tensor_share": least if unsure <= UNSURE * total else None, "tensor_least": least}


def _mean(values: Floats, weights: Ints) -> float | None:
    measured = ~np.isnan(values) & (values >= 0) & (weights > 0)
    total = weights[measured].sum()
    return float((values[measured].astype(np.float64) * weights[measured]).sum() / total) if total else None


def _sm_efficiency(activities: Activities, own: Places, window: Intervals) -> float | None:
    """Mean over the window of min(1, blocks per SM summed over the kernels running at each instant)."""
    blocks = activities.blocks_per_sm[own].astype(np.float64)
    measured = blocks > 0
    if not measured.any():
        return None
    starts, ends, blocks = activities.starts[own][measured], activities.ends[own][measured], blocks[measured]
    moments = np.concatenate((starts, ends))
    order = np.argsort(moments, kind="stable")
    level = np.cumsum(np.concatenate((blocks, -blocks))[order])[:-1]
    # where nothing runs, the cumulative sum is a rounding error rather than 0
    running = np.cumsum(np.where(order < len(starts), 1, -1))[:-1] > 0
    covered = np.diff(window.before(moments[order]))
    return float((np.clip(level, 0.0, 1.0) * covered * running).sum() / window.length)
