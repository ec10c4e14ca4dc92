"""The input of a replay, as arrays: device activities, the calls that launch or wait, and cycles.

Everything else the host did counts as time between these calls.
"""

from __future__ import annotations

import re

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..contract.options import Options
from ..core.batches import ABSENT, TextColumn, integer_arrays, numbered
from ..core.call_tree import Calls, HostSlices, Ints, Mask, Rows, calls_and_slices, pack
from ..core.callers import call_rows
from ..core.intervals import Intervals, union
from ..core.quantiles import order_by
from ..cycles import assignment
from ..cycles.detection import counted_cycles
from ..cycles.step_times import StepTimes, main_devices
from ..idle.polling import Polls, polls_of, unseen_ns

WAITS = re.compile(
    r"(Stream|Device|Event|Ctx)Synchronize|^(cuda|hip)(Memcpy(?!.*Async)|Free|Malloc|HostAlloc|HostFree|FreeHost"
    r"|HostUnregister)|MemcpyWithStream|MemcpyAsync|signal_wait"
)
"""Calls that may wait for the device before they return."""
STREAM_WAITS = re.compile("StreamWaitEvent")
_EVER = -(1 << 62)  # Before any recording, ns.
EDGE = "edge of a cycle"
"""Name of the zero-length calls inserted where cycles begin and end."""


class DeviceActivities(Struct, frozen=True):
    """Device activities sorted by start: ``row`` of the kernels table, times in ns, ids of stream, device and process.

    ``call``: row of its launch call in ``HostCalls`` (-1: none); ``first``: whether it is its call's first activity;
    ``before``: the previous activity on its stream (-1: none); ``cycle``: row of its cycle (-1: none).
    """

    row: Ints
    start: Ints
    end: Ints
    name: TextColumn
    kind: TextColumn
    stream: Rows
    device: Rows
    owner: Rows
    call: Rows
    first: Mask
    before: Rows
    cycle: Rows

    @property
    def dur(self) -> Ints:
        """Duration of each, ns."""
        return self.end - self.start


class HostCalls(Struct, frozen=True):
    """Calls that launch or may wait, and cycle edges, sorted by start: ``row`` of the host table (-1 for an edge).

    ``chain`` numbers the host timelines, one per process; ``thread`` is as in ``HostSlices``.
    """

    row: Ints
    start: Ints
    end: Ints
    chain: Rows
    thread: Rows
    name: Ints
    names: tuple[str, ...]

    def named(self, pattern: re.Pattern[str]) -> Mask:
        """Which calls have a name that the pattern matches."""
        return np.array([bool(pattern.search(name)) for name in self.names], dtype=bool)[self.name]


class Recording(Struct, frozen=True):
    """A run, ready for replay. ``stream_waits``: thread and start (ns) of the StreamWaitEvent calls. ``polled``: the
    calls that stand for polled waits, and the activities they wait for; ``unseen_ns``: as in ``polling.unseen_ns``.

    ``cycles``: the rows of ``Cycles.frame`` that have a start, with ``begin_ns``, where each begins (the lead on its
    main device); ``device_time``: as in ``Cycles``. ``within``: as ``cycle`` of the activities, -1 off the main device.
    ``between``: the time before the first cycle and between cycles on the main device of each rank, which no change
    makes shorter.
    """

    activities: DeviceActivities
    calls: HostCalls
    stream_waits: tuple[Rows, Ints]
    cycles: pl.DataFrame
    device_time: bool
    slices: HostSlices
    polled: tuple[Ints, Ints]
    unseen_ns: int
    within: Rows
    between: dict[int | None, Intervals]

    def between_of_chains(self) -> list[tuple[int, Intervals]]:
        """The time between cycles for each host timeline of ``calls`` that has any."""
        if not self.between:
            return []
        owner = self.slices.rank[self.calls.row[self.calls.row >= 0]]
        rank_of = dict(zip(self.calls.chain[self.calls.row >= 0].tolist(), owner.tolist(), strict=True))
        return [(chain, self.between[of]) for chain, rank in rank_of.items()
                if (of := None if rank == ABSENT else rank) in self.between]

    @property
    def begin(self) -> int:
        """When the first call began or the first activity started, ns."""
        return int(min(self.calls.start[self.calls.row >= 0][0], self.activities.start[0]))

    @property
    def end(self) -> int:
        """When the last call had returned and the last activity had ended, ns."""
        return int(max(self.calls.end[self.calls.row >= 0].max(), self.activities.end.max()))


def recording_of(run: Trace, options: Options) -> Recording | str:
    """The input of the run's replay, or the reason why it cannot be replayed."""
    timed = pl.col("start_ns").is_not_null() & pl.col("dur_ns").is_not_null()
    kernels = run.kernels.with_row_index("row").filter(timed, is_work())
    ids = integer_arrays(kernels.select(
        pl.col("row").cast(pl.Int64), "start_ns", "dur_ns", "stream", "pid", "rank",
        device=pl.col("device").to_physical().cast(pl.Int64)), "row")
    if not len(ids["row"]):
        return "nothing ran on a device, or its times were not recorded"
    if not run.has("host"):
        return "no launch calls were recorded"
    order = order_by(ids["start_ns"], ids["dur_ns"])
    ids = {name: values[order] for name, values in ids.items()}
    every, slices = calls_and_slices(run)
    number_of = np.full(len(slices.name.number) + 1, -1, dtype=np.int64)  # of each host row among the calls; -1: none
    number_of[every.row] = np.arange(len(every.row))
    call = number_of[call_rows(run)[ids["row"]]]
    if not (call >= 0).any():
        return "no launch calls were recorded"
    outer, names = every.outer, slices.name
    call = np.where(call >= 0, outer[np.maximum(call, 0)], -1)
    account = counted_cycles(run, options)
    cycles = account.frame.filter(pl.col("start_ns").is_not_null())
    polls = polls_of(run)
    calls, number, waits_at = _calls(
        every, outer, call, slices, cycles if not account.device_time else cycles.clear(), polls)
    placed = assignment.launched(run).select("launch_ns", "assumed_ns", "start_ns", "rank").collect(engine="streaming")
    cycle = assignment.place(placed, cycles, account.device_time)[ids["row"]]
    named = run.kernels.select("name", "kind").collect(engine="streaming")[ids["row"]]
    process = np.where(call >= 0, every.pid[np.maximum(call, 0)], ids["pid"])
    activities = _activities(ids, number[call], process, named, cycle)
    main = cycles["main_device"].to_physical().cast(pl.Int64).fill_null(ABSENT).to_numpy()
    on_main = (cycle >= 0) & (main[np.maximum(cycle, 0)] == ids["device"]) if len(main) else cycle >= 0
    begins, between = _begins(account.times)
    cycles = cycles.join(begins, on="row", how="left", maintain_order="left").with_columns(
        pl.col("begin_ns").fill_null(pl.col("start_ns")))
    waits = names.where(lambda name: name is not None and STREAM_WAITS.search(name))[every.row]
    marks = (cycles if account.source == "recorded" else cycles.clear()).drop_nulls(["start_ns", "dur_ns"])
    row_order = np.argsort(ids["row"], kind="stable")
    waited = row_order[np.searchsorted(ids["row"], polls.frame["row"].to_numpy(), sorter=row_order)]
    return Recording(
        activities, calls, (slices.thread[every.row[waits]], every.starts[waits]), cycles,
        account.device_time, slices, (waits_at, waited), unseen_ns(slices, every.row, polls, marks),
        np.where(on_main, cycle, -1).astype(np.int32), between,
    )


def _begins(times: StepTimes) -> tuple[pl.DataFrame, dict[int | None, Intervals]]:
    """Where each cycle begins on the main device of its rank (``row begin_ns``), and what lies between, by rank."""
    parts = times.parts.join(main_devices(times.devices), on=["rank", "device"], how="semi", nulls_equal=True)
    before = parts.group_by("rank", "device").agg(to_ns=pl.col("from_ns").min()).with_columns(
        from_ns=pl.lit(_EVER, pl.Int64))
    loose = pl.concat([parts.filter(pl.col("part") == "between").select(before.columns), before])
    return parts.drop_nulls("row").group_by("row").agg(begin_ns=pl.col("from_ns").min()), {
        rank: union(rows["from_ns"].to_numpy(), rows["to_ns"].to_numpy())
        for (rank,), rows in loose.partition_by("rank", as_dict=True).items()}


def _activities(ids: dict[str, Ints], call: Ints, process: Ints, named: pl.DataFrame, cycle: Ints) -> DeviceActivities:
    stream = numbered(ids["rank"], process, ids["device"], ids["stream"]).astype(np.int32)
    order = np.argsort(stream, kind="stable")
    before = np.full(len(order), -1, dtype=np.int32)
    same = stream[order[1:]] == stream[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    launched = np.flatnonzero(call >= 0)[::-1]
    first_of = np.full(int(call.max(initial=-1)) + 1, -1)
    first_of[call[launched]] = launched  # in reverse, so that a call's first activity is written last
    first = np.zeros(len(order), dtype=bool)
    first[first_of[first_of >= 0]] = True
    start = ids["start_ns"]
    return DeviceActivities(
        ids["row"], start, start + np.maximum(ids["dur_ns"], 0), TextColumn.of(named["name"]),
        TextColumn.of(named["kind"]), stream, numbered(ids["rank"], ids["device"]).astype(np.int32),
        numbered(ids["rank"], process).astype(np.int32), call.astype(np.int32), first, before, cycle.astype(np.int32),
    )


def _calls(
    every: Calls, outer: Ints, launched: Ints, slices: HostSlices, cycles: pl.DataFrame, polls: Polls
) -> tuple[HostCalls, Ints, Ints]:
    """The calls to replay, the index among them of each call of ``every`` (-1: not replayed), and of each polled wait,
    which is replayed as a call that returns when its kernel has ended."""
    itself = outer == np.arange(len(outer))
    use = slices.name.where(lambda name: name is not None and WAITS.search(name))[every.row] & itself
    use[launched[launched >= 0]] = True
    chain = numbered(every.rank, every.pid)
    last = order_by(chain, every.ends)
    use[last[np.append(np.diff(chain[last]) != 0, True)]] = True
    rows = np.flatnonzero(use)
    texts = [text or "" for text in slices.name.texts]
    polled = polls.frame
    waited = polled["name"].unique(maintain_order=True).to_list()
    names = (*texts, EDGE, *(f"polls {name}" for name in waited))
    by_row = np.argsort(every.row, kind="stable")
    callers = by_row[np.searchsorted(every.row, polled["call"].to_numpy(), sorter=by_row)]
    start = np.concatenate((every.starts[rows], polled["from_ns"].to_numpy()))
    end = np.concatenate((every.ends[rows], polled["to_ns"].to_numpy()))
    by_start = np.argsort(start, kind="stable")
    place_of = np.argsort(by_start, kind="stable")
    host, rank = every.row[np.concatenate((rows, callers))], every.rank[np.concatenate((rows, callers))[by_start]]
    chain = numbered(chain[np.concatenate((rows, callers))])[by_start]
    thread = slices.thread[host].astype(np.int64)[by_start]
    name = np.concatenate((
        slices.name.number[every.row[rows]].astype(np.int64),
        np.array([len(texts) + 1 + waited.index(one) for one in polled["name"]], dtype=np.int64)))[by_start]
    host[len(rows):] = -1
    start, end, host = start[by_start], end[by_start], host[by_start]
    follows = order_by(thread, start)
    same = thread[follows[1:]] == thread[follows[:-1]]
    earlier, later = follows[:-1][same], follows[1:][same]
    end[earlier] = np.minimum(end[earlier], start[later])  # rounding makes calls overlap
    edges, of_chain = _edges(cycles, start, end, chain, rank)
    host_row = np.concatenate((host, np.full(len(edges), -1)))
    moment = np.concatenate((start, edges))
    order = order_by(moment, np.minimum(host_row, 0))  # an edge comes before the call that begins with its cycle
    number = np.full(len(every.row) + 1, -1, dtype=np.int64)  # the extra last entry maps -1 to -1
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    number[rows] = place[place_of[: len(rows)]]
    chains = np.concatenate((chain, of_chain))[order]
    threads = np.concatenate((thread, np.full(len(edges), -1)))[order]
    for one in np.unique(of_chain):  # an edge is on the thread of the call after it
        matching = np.flatnonzero(chains == one)
        after = np.where(threads[matching] >= 0, np.arange(len(matching)), len(matching) - 1)
        after = np.minimum.accumulate(after[::-1])[::-1]
        threads[matching] = np.where(threads[matching[after]] >= 0, threads[matching[after]], threads[matching].max())
    return HostCalls(
        host_row[order], moment[order], np.concatenate((end, edges))[order], chains.astype(np.int32),
        threads.astype(np.int32),
        np.concatenate((name, np.full(len(edges), len(texts))))[order], names,
    ), number, place[place_of[len(rows):]]


def _edges(cycles: pl.DataFrame, start: Ints, end: Ints, chain: Ints, rank: Ints) -> tuple[Ints, Ints]:
    """Times (ns) at which cycles begin or end outside of any call of their host timeline, and that ``chain``."""
    moments, chains = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for (of_rank,), marks in cycles.group_by("rank"):
        matching = np.ones(len(rank), dtype=bool) if of_rank is None else rank == of_rank
        if not matching.any():
            continue
        one = int(np.bincount(chain[matching]).argmax())
        matching = chain == one
        begins, reach = start[matching], np.maximum.accumulate(end[matching])
        edges = np.unique(np.concatenate((marks["start_ns"], marks["start_ns"] + marks["dur_ns"])))
        at = np.searchsorted(begins, edges, side="right") - 1
        free = (at < 0) | (reach[np.maximum(at, 0)] <= edges)
        moments.append(edges[free])
        chains.append(np.full(int(free.sum()), one, dtype=np.int64))
    return np.concatenate(moments), np.concatenate(chains)


def stream_keys(stream: Ints | Rows, moment: Ints) -> Ints:
    """One number per (stream, moment) that sorts like the pair."""
    return pack(stream, moment)
