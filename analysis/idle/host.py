"""Host activity while a device was idle: the slices that overlap given windows, and the calls that waited for it.

Gaps are explained in batches, in order of time. Each batch reads only the slices that overlap its windows, found
through the first start and last end of each block of rows. So the arrays below, 26 bytes per slice, are the only ones
over all slices; explaining all gaps of a device at once took 60 bytes more.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct
from msgspec.structs import asdict

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core.call_tree import HostSlices, Ints, Mask, nearest, pack, slices_of
from ..core.callers import Callers, Places, callers_of, places_of
from ..core.intervals import Intervals, union
from ..core.names.short_name import short_name
from .blocking_copies import blocking_copies
from .causes import BY_SLICE, Kinds, blocking, causes_of, functions
from .polling import polls_of
from .thread_time import ThreadTimeline, ThreadWindows

_BLOCK = 1 << 16  # Rows per block with a known first start and last end.


class HostCauses(Struct, frozen=True):
    """The recorded host side: slices with their ``causes``, and profiler ``overhead`` by rank. ``first`` and ``last``
    are the earliest start and the latest end (ns) of each block of rows."""

    slices: HostSlices
    overhead: dict[int, Intervals]
    causes: Kinds
    is_input: Mask
    first: Ints
    last: Ints


class Host(HostCauses, frozen=True):
    """``HostCauses`` with callers; ``waits``: rows of the calls that return only when the device is done, copies of
    pageable memory included; ``polls``: as ``Polls.frame``, with the ``thread``."""

    callers: Callers
    is_op: Mask
    places: Places
    waits: Ints
    polls: pl.DataFrame


def host_of(run: Trace) -> Host | None:
    """The host side of a run; None where it has none, or launched nothing."""
    slices = slices_of(run)
    callers = callers_of(run)
    if callers is None:
        return None
    waits = np.union1d(np.flatnonzero(blocking(slices)), blocking_copies(run)["row"].to_numpy())
    polls = polls_of(run).frame
    polls = polls.with_columns(thread=pl.Series(slices.thread[polls["call"].to_numpy()].astype(np.int64)))
    return Host(**asdict(host_causes(run)), callers=callers, is_op=slices.of_kind("op"), places=places_of(slices),
                waits=waits, polls=polls)


def host_causes(run: Trace) -> HostCauses:
    """The slices of a run with the causes of idle time they stand for; the run must have slices."""
    slices = slices_of(run)
    at_work = np.flatnonzero(slices.of_kind("overhead"))
    rank, starts, ends = slices.rank[at_work], slices.start[at_work], slices.ends(at_work)
    overhead = {int(one): union(starts[rank == one], ends[rank == one]) for one in np.unique(rank)}
    blocks = [slice(at, at + _BLOCK) for at in range(0, len(slices.start), _BLOCK)]
    return HostCauses(
        slices, overhead, *causes_of(slices),
        np.array([slices.start[block].min() for block in blocks], dtype=np.int64),
        np.array([slices.ends(block).max() for block in blocks], dtype=np.int64),
    )


def thread_timeline(host: HostCauses, windows: ThreadWindows) -> ThreadTimeline:
    """The slices on the windows' threads that can explain time in the windows."""
    slices, rows = host.slices, _near(host, windows)
    cause = np.where(host.is_input[rows], BY_SLICE.index("input"), host.causes[rows]).astype(np.int64)
    return ThreadTimeline(slices.thread[rows].astype(np.int64), slices.start[rows], slices.ends(rows), cause)


def _near(host: HostCauses, windows: ThreadWindows) -> Ints:
    """Rows of slices that have a cause, on the windows' threads, between the windows' first and last moment."""
    slices = host.slices
    real = windows.ends > windows.starts
    if not real.any():
        return np.zeros(0, dtype=np.int64)
    low, high = windows.starts[real].min(), windows.ends[real].max()
    threads = np.zeros(int(slices.thread.max(initial=0)) + 1, dtype=bool)
    threads[windows.thread[real]] = True
    near = []
    for block in np.flatnonzero((host.first < high) & (host.last > low)).tolist():
        some = slice(block * _BLOCK, (block + 1) * _BLOCK)
        starts, ends = slices.start[some], slices.ends(some)
        use = (starts < high) & (ends > low) & (ends > starts) & (host.causes[some] >= 0)
        use &= threads[slices.thread[some]]
        near.append(np.flatnonzero(use) + some.start)
    return np.concatenate(near) if near else np.zeros(0, dtype=np.int64)


def drained_by(host: Host, begins: Ints, call: Ints) -> dict[str, pl.Series]:
    """The call that drained the queue before each launch: on its thread, the one waiting for the device when the gap
    began, else the last one to wait after that. So a copy that waited for everything queued takes precedence over the
    synchronisation after it, which has nothing left to wait for. ``begins``: starts of the gaps (ns); ``call``: launch
    calls of what ended them, -1 for none. ``drained_by``: where the call was made; ``drain_ns``: how long it waited."""
    slices, wait = host.slices, _last_wait(host, begins, call)
    operator = nearest(slices.parent, wait, host.is_op)
    _, frame = host.places.around(slices, wait)
    rows = pl.DataFrame({"who": functions(slices.names_of(np.where(operator >= 0, operator, wait))), "frame": frame})
    lines = {line: short_name(line) for line in frame.cast(pl.String).unique().drop_nulls()}
    text = pl.concat_str(
        pl.col("who").cast(pl.String), pl.col("frame").cast(pl.String).replace(lines), separator=", ", ignore_nulls=True
    )
    waited: npt.NDArray[np.int64] = np.zeros(len(wait), dtype=np.int64)
    waited[wait >= 0] = slices.dur[wait[wait >= 0]]
    return {
        "drained_by": rows.select(pl.when(pl.col("who").is_not_null()).then(text).cast(NAME).alias("by"))["by"],
        "drain_ns": pl.Series(waited).set(pl.Series(wait < 0), None),
    }


def _last_wait(host: Host, begins: Ints, call: Ints) -> Ints:
    """The row of the wait that drained the queue before each launch, -1 for none."""
    slices, launch = host.slices, np.maximum(call, 0)
    launcher = slices.thread[launch].astype(np.int64)
    launching = np.zeros(int(slices.thread.max(initial=0)) + 1, dtype=bool)
    launching[launcher] = True
    waits = host.waits[launching[slices.thread[host.waits]]]  # called per device, each with its own threads
    if not len(waits):
        return np.full(len(call), -1, dtype=np.int64)
    thread = slices.thread[waits].astype(np.int64)
    ends = slices.ends(waits)
    packed = pack(np.concatenate((thread, launcher, launcher)), np.concatenate((ends, slices.start[launch], begins)))
    order = np.argsort(packed[: len(waits)], kind="stable")
    last, first = np.split(np.searchsorted(packed[: len(waits)][order], packed[len(waits) :], side="right"), 2)
    first = np.minimum(first, np.maximum(last - 1, 0))  # the first that ends after the gap begins
    candidate, early = order[np.maximum(last - 1, 0)], order[first]
    is_open = (thread[early] == launcher) & (ends[early] > begins) & (slices.start[waits[early]] <= begins)
    candidate = np.where(is_open, early, candidate)
    same = (call >= 0) & (last > 0) & (thread[candidate] == launcher)
    return np.where(same & (ends[candidate] > begins), waits[candidate], -1)
