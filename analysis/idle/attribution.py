"""The attribution of a run's idle time: every gap of every device with its causes, and the call that drained the queue.

The causes of a gap sum to its length, and those of a device to its idle time, to the nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from zlib import crc32

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...loaders.schema import NAME
from ...loaders.trace import Trace
from ..core import units
from ..core.batches import ABSENT, CALLS
from ..core.call_tree import HostSlices, Ints, Mask, crossing_notes, crossings
from ..core.callers import missing_notes
from ..core.derived import derived_rows, derived_value
from ..core.intervals import EMPTY, Intervals, union
from ..cycles.whole import Steps
from .cause_meanings import CAUSES
from .causes import BY_SLICE, DISPATCH_NS, functions
from .gaps import DeviceGaps, activities_around, activities_of, gaps_of
from .host import Host, drained_by, host_of, thread_timeline
from .scope import Part, ScopeSums
from .thread_time import ThreadWindows, time_by_cause

AT_ONCE = 1 << 17  # Gaps that are explained, or sorted, per batch.
_NAMES = tuple(CAUSES)


class DeviceIdle(Struct, frozen=True):
    """One device: first start to last end, busy and idle time in ns, idle time by cause (only > 0), number of gaps."""

    device: str | None
    rank: int | None
    window_ns: int
    busy_ns: int
    idle_ns: int
    causes: dict[str, int]
    gaps: int


class DeviceScope(Struct, frozen=True):
    """The figures that sentences about a device use: its sums over the steps, and the ``parts`` of ``scope``."""

    sums: DeviceIdle
    parts: dict[str, Part]


class Idle(Struct, frozen=True):
    """Every gap as a row of ``gaps``, longest first, sums per device, and notes on what could not be determined.
    ``scope``: the devices in the given steps (without steps: in the whole recording), except those that ran nothing
    there. Gaps of a big recording stay on disk: in memory they take 60 bytes each, and most queries need few rows or
    columns. ``gaps``: ``device rank start_ns dur_ns cause cause_ns before after call op frame drained_by drain_ns
    index``, where ``cause`` is the longest one, lasting ``cause_ns``, and ``index`` the launch that ended the gap."""

    gaps: pl.LazyFrame
    devices: tuple[DeviceIdle, ...]
    notes: tuple[str, ...]
    scope: tuple[DeviceScope, ...] = ()


def idle_of(run: Trace, piece: Trace, steps: Steps | None = None) -> Idle | None:
    """Idle time between the activities of ``piece``, the run or a part of it; None without any times. For a piece that
    is one cycle: the parts of the gaps in the cycle's window, which those that reach over its ends are cut to."""
    key = (None if steps is None else steps.key,)
    return piece.remember(
        "idle", key, lambda: _idle_of_run(run, steps) if piece is run else _idle_of_piece(run, piece, steps))


def _idle_of_piece(run: Trace, piece: Trace, steps: Steps | None) -> Idle | None:
    """The idle time of a part of the run, by cause."""
    own, part = activities_of(piece), piece.part_of
    if part is None or not part.one_cycle or steps is None or own.is_empty():
        attributed = _attributed(run, own, steps)
        return None if attributed is None else Idle(
            pl.concat(attributed.longest_first()).lazy(), attributed.devices, attributed.notes, attributed.scope)
    attributed = _attributed(run, activities_around(part.parent, *steps.bounds), steps, cut=True)
    return None if attributed is None else Idle(
        pl.concat(attributed.longest_first()).lazy(), tuple(one.sums for one in attributed.scope), attributed.notes,
        attributed.scope)


def _idle_of_run(run: Trace, steps: Steps | None) -> Idle | None:
    """The idle time of the whole run, by cause, cached."""
    result = list[_Attribution | None]()

    def found() -> _Attribution | None:
        if not result:
            result.append(_attributed(run, activities_of(run), steps))
        return result[0]

    def about() -> _About | None:
        attributed = found()
        return None if attributed is None else _About(attributed.devices, attributed.notes, attributed.scope)

    def gaps() -> Iterable[pl.DataFrame]:
        attributed = found()
        return () if attributed is None else attributed.longest_first()

    of_steps = "" if steps is None else f"-{crc32(repr(steps.key).encode())}"
    facts = derived_value(run, f"gaps-about{of_steps}", _About | None, about)
    return None if facts is None else Idle(derived_rows(run, "gaps", gaps), facts.devices, facts.notes, facts.scope)


class _About(Struct, frozen=True):
    """The cached part of the attribution besides its gaps."""

    devices: tuple[DeviceIdle, ...]
    notes: tuple[str, ...]
    scope: tuple[DeviceScope, ...]


class _Attribution(Struct, frozen=True):
    """The attribution as computed: the gaps in batches, by device and time."""

    gaps: list[pl.DataFrame]
    devices: tuple[DeviceIdle, ...]
    notes: tuple[str, ...]
    scope: tuple[DeviceScope, ...]

    def longest_first(self) -> Iterator[pl.DataFrame]:
        """The gaps in the order of ``Idle.gaps``, in batches, so that they are never all copied at once."""
        gaps = pl.concat(self.gaps)
        order = gaps.select("dur_ns", "start_ns", "rank").with_row_index("place").sort(
            "dur_ns", "start_ns", "rank", descending=[True, False, False], maintain_order=True)["place"]
        for at in range(0, max(len(order), 1), AT_ONCE):
            yield gaps[order[at : at + AT_ONCE]]


def _attributed(
    run: Trace, activities: pl.DataFrame, steps: Steps | None, cut: bool = False
) -> _Attribution | None:
    """``cut``: with only the parts of the gaps in the steps."""
    if activities.is_empty():
        return None
    gaps = gaps_of(activities)
    activities = activities.select("index", "name")  # frees the rest before the host side is read
    host = host_of(run)
    frames, devices, scope = [], [], []
    for device in gaps:
        whole = np.array([device.begin_ns]), np.array([device.begin_ns + device.window_ns])
        scope_of = union(*whole) if steps is None else steps.of(device.rank, device.device)
        some, sums, within = _of_device(run, host, activities, device, scope_of, cut)
        frames += some
        devices.append(sums)
        if scope_of.length:
            scope.append(within)
    return _Attribution(frames, tuple(devices), tuple(_notes(run, host, devices)), tuple(scope))


def _of_device(
    run: Trace, host: Host | None, activities: pl.DataFrame, gaps: DeviceGaps, steps: Intervals, cut: bool,
) -> tuple[list[pl.DataFrame], DeviceIdle, DeviceScope]:
    launches = None if host is None else launches_of(run, host, activities, gaps)
    frames, total, scope = [], np.zeros(len(_NAMES), dtype=np.int64), ScopeSums()
    count = len(gaps.starts)
    for at in range(0, max(count, 1), AT_ONCE):
        some = slice(at, at + AT_ONCE)
        picked = gaps.pick(some)
        frame, parts = _explained(host, activities, picked, None if launches is None else launches.pick(some))
        total += parts.sum(axis=1)
        inside = np.flatnonzero(picked.inside(steps))
        matching = frame if len(inside) == frame.height else frame[inside]
        scope.add(matching, parts[:, inside])
        frames.append(matching if cut else frame)
    if steps.length:
        edged = gaps.with_edges(int(steps.starts[0]), int(steps.ends[-1]))
        pieces, _, _ = edged.pick(np.flatnonzero(edged.is_edge | ~edged.inside(steps))).within(steps.starts, steps.ends)
        if len(pieces.starts):
            frame, parts = _explained(
                host, activities, pieces, None if host is None else launches_of(run, host, activities, pieces))
            scope.add(frame, parts)
            if cut:
                frames.append(frame)
    idle, window = int(scope.by_cause.sum()), steps.length
    return frames, _sums(gaps, gaps.window_ns, gaps.busy_ns, total, count), DeviceScope(
        _sums(gaps, window, window - idle, scope.by_cause, scope.gaps), scope.parts())


def _sums(gaps: DeviceGaps, window_ns: int, busy_ns: int, by_cause: Ints, count: int) -> DeviceIdle:
    causes = {name: int(total) for name, total in zip(_NAMES, by_cause, strict=True) if total}
    return DeviceIdle(gaps.device, gaps.rank, window_ns, busy_ns, window_ns - busy_ns, causes, count)


class Launches(Struct, frozen=True):
    """For the activity that ended each gap: its row in the kernels table, its launch ``call`` (-1: none), and whether
    it is in the same ``graph`` launch as the one before. ``lost``: whether a kernel was launched in the gap that has no
    record. ``overhead``: when a profiler was at work in the process."""

    row: Ints
    call: Ints
    graph: Mask
    lost: Mask
    overhead: Intervals

    def pick(self, some: slice | Ints) -> Launches:
        """The launches of some gaps."""
        return Launches(self.row[some], self.call[some], self.graph[some], self.lost[some], self.overhead)


def launches_of(run: Trace, host: Host, activities: pl.DataFrame, gaps: DeviceGaps) -> Launches:
    """The launches of the activities that end the gaps."""
    row, before = (_rows_of(run, activities["index"].gather(pl.Series(at))) for at in (gaps.after, gaps.before))
    call = host.callers.call[row]
    if len(unplaced := host.slices.unplaced):  # a call without a start explains no gap
        call = np.where(np.isin(call, unplaced), -1, call)
    graph = (call >= 0) & (host.callers.call[before] == call) & (gaps.before != gaps.after)
    explained = np.flatnonzero((call >= 0) & ~graph)
    rank = int(host.slices.rank[call[explained[0]]]) if len(explained) else ABSENT
    return Launches(row, call, graph, _lost(run, gaps), host.overhead.get(rank, EMPTY))


def _lost(run: Trace, gaps: DeviceGaps) -> Mask:
    """Whether a launch call without a record began in each gap."""
    missing = run.account().missing.filter(~pl.col("cut"))
    if gaps.rank is not None:
        missing = missing.filter(pl.col("rank").is_null() | (pl.col("rank") == gaps.rank))
    moments = missing["start_ns"].drop_nulls().sort().to_numpy()
    first, last = (np.searchsorted(moments, at, side="left") for at in (gaps.since, gaps.until))
    lost: Mask = last > first
    return lost


def _explained(
    host: Host | None, activities: pl.DataFrame, gaps: DeviceGaps, launches: Launches | None
) -> tuple[pl.DataFrame, Ints]:
    """Some gaps of a device as rows of ``Idle.gaps``, and their time by cause: an array (causes, gaps) in ns."""
    count = len(gaps.starts)
    parts = by_cause(host, gaps, launches)
    none = pl.Series([None] * count, dtype=NAME)
    polled: dict[int, str] = {}
    reasons = {"call": none, "op": none, "frame": none, "drained_by": none,
               "drain_ns": pl.Series([None] * count, dtype=pl.Int64)}
    if host is not None and launches is not None:  # of time that no activity ends, none is named
        rows = pl.Series(launches.row).set(pl.Series(gaps.is_open), None)
        launches, callers = replace(launches, call=np.where(gaps.is_open, -1, launches.call)), host.callers.frame
        reasons = {
            "call": functions(host.slices.names_of(launches.call)), "op": callers["op"].gather(rows),
            "frame": callers["frame"].gather(rows), **drained_by(host, gaps.starts, launches.call),
        }
        polled = _polled_gaps(host, gaps, launches)
    most = parts.argmax(axis=0) if count else np.zeros(0, dtype=np.int64)
    if polled := {at: name for at, name in polled.items() if _NAMES[most[at]] == "sync"}:
        texts = reasons["call"].cast(pl.String).to_list()
        for at, name in polled.items():
            texts[at] = f"polls {name}"
        reasons["call"] = pl.Series(texts, dtype=NAME)
    before, after = pl.Series(gaps.before), pl.Series(gaps.after)
    frame = pl.DataFrame({
        "device": pl.Series([gaps.device] * count, dtype=NAME), "rank": pl.Series([gaps.rank] * count, dtype=pl.Int64),
        "start_ns": gaps.starts, "dur_ns": gaps.ends - gaps.starts,
        "cause": pl.Series(_NAMES, dtype=NAME).gather(pl.Series(most)),
        "cause_ns": parts[most, np.arange(count)],
        "before": activities["name"].gather(before).set(pl.Series(gaps.starts < gaps.begin_ns), None),
        "after": activities["name"].gather(after).set(pl.Series(gaps.is_open), None), **reasons,
        "index": activities["index"].gather(after),
    })
    return frame, parts


def _rows_of(run: Trace, index: pl.Series) -> Ints:
    """The rows of ``run.kernels`` with these values of ``index``."""
    every = run.kernels.select("index").collect(engine="streaming")["index"].to_numpy()
    wanted = index.to_numpy()
    if len(every) and every[0] == 0 and every[-1] == len(every) - 1 and bool((np.diff(every) == 1).all()):
        return wanted
    order = np.argsort(every, kind="stable")
    return order[np.searchsorted(every[order], wanted)]


def by_cause(host: Host | None, gaps: DeviceGaps, launches: Launches | None) -> Ints:
    """The time of each gap by cause, summing to its length: an array (``CAUSES``, gaps) in ns."""
    length = gaps.ends - gaps.starts
    parts = np.zeros((len(_NAMES), len(length)), dtype=np.int64)
    if host is None or launches is None:
        parts[_NAMES.index("unknown")] = length
        return parts
    slices, launched, lost = host.slices, launches.call >= 0, launches.lost
    parts[_NAMES.index("lost")] = np.where(lost, length, 0)
    parts[_NAMES.index("unknown")] = np.where(launched | lost, 0, length)
    parts[_NAMES.index("graph")] = np.where(launches.graph & ~lost, length, 0)
    some = np.flatnonzero(launched & ~launches.graph & ~lost)
    if not len(some):
        return parts
    launch, begin, end, overhead = launches.call[some], gaps.starts[some], gaps.ends[some], launches.overhead
    # after the last activity nothing was launched: the thread that launched it is looked at to the end
    called = np.where(gaps.is_open[some], end, np.clip(slices.start[launch], begin, end))
    returned = np.where(gaps.is_open[some], end, np.clip(slices.ends(launch), begin, end))
    windows = ThreadWindows(slices.thread[launch].astype(np.int64), begin, called)
    inside = time_by_cause(thread_timeline(host, windows), windows, overhead)
    _count_polls(host, windows, inside, overhead)
    for number, cause in enumerate(BY_SLICE):
        parts[_NAMES.index(cause), some] = inside[number]
    before, during = overhead.within(begin, called), overhead.within(called, returned)
    parts[_NAMES.index("untraced"), some] = called - begin - before - inside.sum(axis=0)
    parts[_NAMES.index("profiler"), some] = before + during
    parts[_NAMES.index("launch"), some] = returned - called - during
    ready = np.maximum(slices.ends(launch), gaps.since[some])
    dispatched = np.clip(ready + DISPATCH_NS, returned, end)
    parts[_NAMES.index("dispatch"), some] = dispatched - returned
    parts[_NAMES.index("queued"), some] = end - dispatched
    return parts


def _polls_in(host: Host, windows: ThreadWindows) -> tuple[Ints, Ints]:
    """The pairs of a window and a polled wait of its thread that overlap. Windows do not overlap each other."""
    at, which = list[int](), list[int]()
    for number, (thread, begin, end) in enumerate(host.polls.select("thread", "from_ns", "to_ns").rows()):
        first = int(np.searchsorted(windows.starts, begin, side="right")) - 1
        for window in range(max(first, 0), int(np.searchsorted(windows.starts, end, side="left"))):
            if windows.thread[window] == thread and windows.ends[window] > begin:
                at.append(window)
                which.append(number)
    return np.array(at, dtype=np.int64), np.array(which, dtype=np.int64)


def _count_polls(host: Host, windows: ThreadWindows, inside: Ints, overhead: Intervals) -> None:
    """Count what polled waits cover of the windows as ``sync``: it is neither the operator's nor Python's time."""
    at, which = _polls_in(host, windows)
    if not len(at):
        return
    low = np.maximum(windows.starts[at], host.polls["from_ns"].to_numpy()[which])
    high = np.minimum(windows.ends[at], host.polls["to_ns"].to_numpy()[which])
    parts = ThreadWindows(windows.thread[at], low, high)
    within = time_by_cause(thread_timeline(host, parts), parts, overhead)
    rest = high - low - overhead.within(low, high) - within.sum(axis=0)
    for cause in ("python", "op"):
        number = BY_SLICE.index(cause)
        rest = rest + within[number]
        np.subtract.at(inside[number], at, within[number])
    np.add.at(inside[BY_SLICE.index("sync")], at, rest)


def _polled_gaps(host: Host, gaps: DeviceGaps, launches: Launches) -> dict[int, str]:
    """The gaps in which the launching thread polled for a kernel, and its name."""
    if not host.polls.height:
        return {}
    launched = launches.call >= 0
    row = np.maximum(launches.call, 0)
    called = np.where(launched, host.slices.start[row], gaps.starts)
    thread = np.where(launched, host.slices.thread[row], -1).astype(np.int64)
    windows = ThreadWindows(thread, gaps.starts, np.clip(called, gaps.starts, gaps.ends))
    at, which = _polls_in(host, windows)
    names = host.polls["name"].to_list()
    return {int(gap): names[number] for gap, number in zip(at, which, strict=True)}


def _notes(run: Trace, host: Host | None, devices: list[DeviceIdle]) -> list[str]:
    idle, unknown = (sum(d.idle_ns for d in devices), sum(d.causes.get("unknown", 0) for d in devices))
    notes = []
    if host is None or (idle and unknown == idle):
        notes.append(
            "No launch calls were recorded for these activities: the gaps are times in which nothing was recorded on "
            "the device; the cause is unknown."
        )
    elif unknown:
        share = units.percent(100 * unknown / idle)
        notes.append(f"For {share} of the idle time the launch after it was not recorded, so its cause is unknown.")
    notes += missing_notes(run)
    if host is not None:
        notes += crossing_notes(crossings(run.host))
    if host is not None and (bare := _bare_graphs(host.callers.call, host.slices)):
        notes.append(
            f"{bare:,} graph launches have no recorded kernels: time that counts as idle may include them."
        )
    return notes


def _bare_graphs(host_calls: Ints, slices: HostSlices) -> int:
    """The number of graph launches without a recorded device activity."""
    launches = slices.named(lambda name: "GraphLaunch" in name, slices.of_kind(*CALLS))
    if not launches.any():
        return 0
    return int((~np.isin(np.flatnonzero(launches), host_calls)).sum())
