"""Device activities with timestamps as arrays: the input for step windows, breakdown and gauges."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..core.batches import ids
from ..core.intervals import Intervals, Ints, union
from ..core.quantiles import codes, dense
from ..kernels.sources import ACTIVITIES
from ..kernels.tensor_cores import by_tensor_cores

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
    """The timed device activities of the run; None if there are none. Activities launched under one of ``asks``
    (external ids of host slices that request a collective) count as communication, whatever their name."""
    rows = (
        run.kernels.filter(pl.col("kind").is_in(ACTIVITIES))
        .select("start_ns", "dur_ns", "name", "kind", "device", "op_id", "blocks_per_sm", "occupancy", "rank")
        .drop_nulls(["start_ns", "dur_ns"]).collect(engine="streaming")
    )
    if rows.is_empty():
        return None
    starts = rows["start_ns"].to_numpy()
    devices, device = _numbered(rows["device"])
    kinds, kind = _numbered(rows["kind"])
    kind = np.array([ACTIVITIES.index(str(name)) for name in kinds], dtype=np.int64)[kind]
    return Activities(
        starts, starts + np.maximum(rows["dur_ns"].to_numpy(), 0), kind, device, devices,
        (rows["kind"] == "collective").to_numpy() | np.isin(ids(rows["op_id"]), asks),
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
