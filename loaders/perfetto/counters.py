"""Counter events as samples of ``metrics``, named by their track; the unit is its descriptor's, else from the name."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..kineto import dialect
from ..kineto.columns import NULL
from ..kineto.samples import Samples
from ..kineto.tables import Tables
from ..protobuf.tokens import Ints
from .events import TrackEvents
from .tracks import Place, Tracks

_MOST_WAITING = 1 << 20  # Maximum of samples waiting for their track's descriptor; later ones go in unnamed.


class _Series(NamedTuple):
    metric: int
    device: int
    unit: int
    pid: int
    multiplier: int
    incremental: bool


class Counters:
    """Adds samples to the tables; those of a track without a descriptor yet are held back."""

    def __init__(self, tables: Tables, tracks: Tracks) -> None:
        self._tables, self._tracks = tables, tracks
        self._memory = Samples(tables)
        self._series: dict[int, _Series] = {}
        self._sums: dict[int, float] = {}
        self._unnamed: list[tuple[Ints, Ints, npt.NDArray[np.float64]]] = []
        self._waiting = 0

    def add(self, events: TrackEvents, values: npt.NDArray[np.float64], at: Ints) -> None:
        """Add the samples ``at`` of these events, in the order of the trace."""
        at = at[np.isfinite(values[at])]
        times, tracks, values = events.time[at], events.track[at], values[at]
        distinct = np.isin(tracks, [track for track in np.unique(tracks).tolist() if track in self._tracks.by_uuid])
        if self._waiting >= _MOST_WAITING:
            distinct[:] = True
        if not distinct.all():
            late = ~distinct
            self._unnamed.append((times[late], tracks[late], values[late]))
            self._waiting += int(late.sum())
        self._put(times[distinct], tracks[distinct], values[distinct])

    def memory(self, time: int, place: Place, arguments: dict[str, Any]) -> None:
        """Add one allocation or free as a sample of allocated memory, on the thread of its track."""
        pid, tid = (None if number == NULL else number for number in (place.pid, place.tid))
        self._memory.memory({"ts": f"{time // 1000}.{time % 1000:03d}", "pid": pid, "tid": tid, "args": arguments})

    def flush(self) -> None:
        """Add the samples that were held back."""
        self._memory.flush()
        waiting, self._unnamed = self._unnamed, []
        for times, tracks, values in waiting:
            self._put(times, tracks, values)

    def _put(self, times: Ints, tracks: Ints, values: npt.NDArray[np.float64]) -> None:
        if not len(times):
            return
        distinct, where = np.unique(tracks, return_inverse=True)
        series = [self._of(track) for track in distinct.tolist()]
        values = values.copy()
        for number, one in enumerate(series):
            if one.incremental:
                of_track = where == number
                track = int(distinct[number])
                values[of_track] = np.cumsum(values[of_track]) + self._sums.get(track, 0.0)
                self._sums[track] = float(values[of_track][-1])
        unit = np.array([one.multiplier for one in series], np.float64)[where]
        columns = {name: np.array([getattr(one, name) for one in series], np.int32)[where]
                   for name in ("metric", "device", "unit")}  # fmt: skip
        pids = np.array([one.pid for one in series], np.int64)[where]
        self._tables.sample({
            "ts_ns": times, **columns, "value": values * unit, "pid": pids, "rank": np.full(len(times), NULL, np.int64),
        })  # fmt: skip

    def _of(self, track: int) -> _Series:
        if track not in self._series:
            chain = self._tracks.around(track)
            counter = chain[0] if chain else None
            name = next((each.name for each in chain if each.name), "counter")
            metric, device, _, unit = dialect.counter({"name": name, "args": {"value": 0}}, {})[0]
            place = self._tracks.place(track)
            if device is None and place.on_device and place.device != NULL:
                device = f"GPU {place.device}"
            code = self._tables.strings.code
            self._series[track] = _Series(
                code(metric), -1 if device is None else code(device), code((counter.unit if counter else "") or unit),
                NULL if device is not None else place.pid, counter.multiplier if counter else 1,
                bool(counter and counter.incremental),
            )  # fmt: skip
        return self._series[track]
