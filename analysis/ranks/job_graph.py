"""The order of a job's operations on all its ranks, as one graph per cycle that can be replayed any number of times.

Operations are stretches of computation, and collectives and messages. A stretch begins when the one before it on its
rank has ended, and whatever the rank had received by then has arrived. A collective or message begins on a rank where
the rank's computation stood when it did, after the one before it on its stream; it moves data once the last of its
members has begun. Messages that begin together on a stream are one exchange, and end together. Nothing waits for the
host: what is replayed is what devices and ranks owe each other.

Definition after ByteDance's StragglerAnalysis (github.com/ByteDance-Seed/StragglerAnalysis): transfer of an operation =
its own end − the latest begin of its members, at least 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import Struct

from ...loaders.trace import OPERATIONS, REDUCED, Trace
from ..communication.arrivals import Arrivals
from ..communication.collectives import BETWEEN, MESSAGE, Member
from ..contract.options import Options
from ..core.intervals import Ints
from ..cycles.assignment import in_cycles
from ..cycles.detection import counted_cycles

Floats = npt.NDArray[np.float64]
TOGETHER_NS = 20_000
"""Messages of a stream that begin within this are one exchange."""
COMPUTATION = "computation"
"""The name of all that a rank of a reduced dataset computes."""
_TOLERANCE_NS = 2_000
"""How far recorded times may be off where they say what came before what."""


class Graph(Struct, frozen=True):
    """Nodes in an order in which each comes after what it depends on: node ``n`` ends ``weight[n]`` after the latest of
    its sources ``source[to[n]:to[n + 1]]``, each counted from ``share`` of its own weight before its end. ``levels``:
    bounds of groups of nodes that depend on earlier groups alone. ``cycle``: the cycle of each node, from 0."""

    source: Ints
    share: Floats
    to: Ints
    levels: Ints
    cycle: Ints
    cycles: int

    def ends(self, weight: Floats) -> Floats:
        """When each node ends, from the begin of its cycle, ns; ``weight`` is (nodes, scenarios)."""
        ends = weight.copy()
        for low, high in zip(self.levels[:-1].tolist(), self.levels[1:].tolist(), strict=True):
            first, last = int(self.to[low]), int(self.to[high])
            if first == last:
                continue
            source = self.source[first:last]
            ready = ends[source] + self.share[first:last, None] * weight[source]
            some = np.flatnonzero(np.diff(self.to[low : high + 1]))
            latest = np.maximum.reduceat(ready, self.to[low + some] - first, axis=0)
            ends[low + some] += np.maximum(latest, 0)
        return ends

    def length(self, weight: Floats) -> Floats:
        """The mean length of a cycle for each scenario, ns."""
        result = np.full((self.cycles, weight.shape[1]), 0.0)
        np.maximum.at(result, self.cycle, self.ends(weight))
        return np.asarray(result.mean(axis=0))

    def critical(self, weight: Floats) -> tuple[int, list[tuple[int, float, float]]]:
        """The cycle of lower median length with ``weight`` (nodes), and the chain of nodes that sets its length, each
        with the begin and end of its part, ns from the begin of the cycle."""
        ends = self.ends(weight[:, None])[:, 0]
        lengths = np.zeros(self.cycles)
        np.maximum.at(lengths, self.cycle, ends)
        number = int(np.argsort(lengths, kind="stable")[(self.cycles - 1) // 2])
        own = np.flatnonzero(self.cycle == number)
        node, until, chain = int(own[ends[own].argmax()]), float(lengths[number]), []
        while True:
            sources = slice(int(self.to[node]), int(self.to[node + 1]))
            source = self.source[sources]
            ready = ends[source] + self.share[sources] * weight[source]
            latest = int(ready.argmax()) if len(ready) else -1
            begin = max(0.0, float(ready[latest])) if latest >= 0 else 0.0
            if begin < until:
                chain.append((node, begin, until))
                until = begin
            if latest < 0 or until <= 0:
                return number, chain[::-1]
            node = int(source[latest])


class PathStep(NamedTuple):
    """A step of the critical path over all ranks: the worker it lies on, ``kernel``, ``collective`` or ``message``, its
    name, and its begin and end in the replay and its recorded begin on the common clock, ns."""

    worker: int
    kind: str
    name: str
    begin: int
    end: int
    start: int


class JobGraph(Struct, frozen=True):
    """``graph`` of a job. ``work``: stretches of computation, ``node worker busy_ns``; ``kernels``: ``work`` (row),
    ``worker cycle name start_ns dur_ns`` of what they consist of, and ``alone`` (ns, without what runs beside it);
    ``moves``: ``node worker kind start_ns transfer_ns`` of collectives and messages. ``workers``: the member of each;
    ``cycles``: the numbers of its cycles; ``recorded_ns``: mean recorded length of a cycle."""

    graph: Graph
    work: pl.DataFrame
    kernels: pl.DataFrame
    moves: pl.DataFrame
    workers: tuple[Member, ...]
    cycles: tuple[int, ...]
    recorded_ns: float

    def path(self, weight: Floats) -> tuple[int, tuple[PathStep, ...]]:
        """The number of the cycle of median length, and the critical path over all ranks in it. A stretch of
        computation is one step per kernel."""
        number, chain = self.graph.critical(weight)
        work = dict(zip(self.work["node"].to_list(), range(self.work.height), strict=True))
        moves = dict(zip(self.moves["node"].to_list(), range(self.moves.height), strict=True))
        kernels = self.kernels.with_row_index("row").filter(
            pl.col("work").is_in([work[node] for node, _, _ in chain if node in work]), pl.col("alone") > 0)
        inside = {key: part for (key,), part in kernels.group_by("work", maintain_order=True)}
        steps: list[PathStep] = []
        for node, begin, end in chain:
            if node in moves:
                one = self.moves.row(moves[node], named=True)
                kind = "message" if one["talks"] else "collective"
                steps.append(PathStep(one["worker"], kind, one["what"], round(begin), round(end), one["start_ns"]))
            elif node in work and (part := inside.get(work[node])) is not None:
                # from the begin of the stretch on: what begins during it leaves its rest out
                edges = np.minimum(begin + np.cumsum(part["alone"].to_numpy()) * (
                    weight[node] / max(int(part["alone"].sum()), 1)), end)
                low = begin
                for (name, worker, start), high in zip(
                        part.select("name", "worker", "start_ns").rows(), edges.tolist(), strict=True):
                    if high > low:
                        steps.append(PathStep(worker, "kernel", name, round(low), round(high), start))
                        low = high
        return self.cycles[number], tuple(steps)


def job_graph(run: Trace, arrivals: Arrivals, options: Options) -> JobGraph | str | None:
    """The graph of a run of several ranks; None where no rank shares an operation with another, or the reason why its
    operations have no order."""
    if len(arrivals.members) < 2 or not (arrivals.count or arrivals.paired):
        return None
    kernels, moves = operations(run, arrivals, options)
    if kernels.is_empty() or moves.is_empty():
        return None
    return _graph(kernels, moves, arrivals.members, OPERATIONS in run.info.facts)


_KERNELS = {"worker": pl.Int64, "cycle": pl.Int64, "name": pl.String, "stream": pl.Int64, "start_ns": pl.Int64,
            "dur_ns": pl.Int64}


def operations(run: Trace, arrivals: Arrivals, options: Options) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Kernels, and collectives and messages, of whole cycles, on the clock of the first rank, without ranks whose clock
    is unknown."""
    if REDUCED in run.info.facts:
        return _reduced(arrivals)
    cycles = counted_cycles(run, options)
    ahead = pl.Series(arrivals.clocks.on_first)
    members = pl.DataFrame([(at, one.rank, one.device) for at, one in enumerate(arrivals.members)], orient="row",
                           schema={"worker": pl.Int64, "rank": pl.Int64, "device": pl.String}).filter(~ahead.is_nan())
    rows = run.kernels if cycles.frame.is_empty() else in_cycles(run, cycles.frame, cycles.device_time)
    number = pl.lit(0, pl.Int64) if cycles.frame.is_empty() else pl.col("cycle").cast(pl.Int64)
    every = rows.filter(pl.col("kind").is_in(["kernel", "collective"])).select(
        "index", "rank", pl.col("device").cast(pl.String), "stream", "start_ns", "dur_ns",
        pl.col("kind", "name").cast(pl.String), cycle=number,
    ).drop_nulls(["start_ns", "dur_ns"]).join(
        members.lazy(), on=["rank", "device"], how="inner", nulls_equal=True).collect(engine="streaming")
    ahead = ahead.fill_nan(0).round().cast(pl.Int64)
    every = every.with_columns(pl.col("start_ns") - pl.lit(ahead).gather(pl.col("worker")), pl.col("dur_ns").clip(0))
    ends = arrivals.frame.select("index", "instance", "message", "pair", what="kind", sends=_sends(arrivals.frame))
    moves = ends.join(
        every.filter(pl.col("kind") == "collective"), on="index", how="inner")
    return every.filter(pl.col("kind") == "kernel").select([*_KERNELS]), moves


def _sends(frame: pl.DataFrame) -> pl.Series:
    """Which rows are the sending end of a message: the receiving end is what computation waits for."""
    return frame.select(pl.col("kind").is_in(["send"]) | (
        (pl.col("kind") == MESSAGE) & pl.col("sends").fill_null(False))).to_series()


def _reduced(arrivals: Arrivals) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The same of a reduced dataset: what a rank computed between two starts or ends of collectives is one kernel."""
    ahead = pl.Series(arrivals.clocks.on_first).round().fill_nan(None).cast(pl.Int64)
    own = pl.lit(ahead).gather(pl.col("member"))
    start = pl.col("start_ns") - own
    whole = arrivals.frame.filter(own.is_not_null())
    whole = whole.filter(pl.col("cycle").is_not_null() | pl.col("cycle").is_null().all())
    rows = whole.with_columns(
        worker="member", start_ns=start, cycle=pl.col("cycle").fill_null(0), sends=_sends(whole), what="kind").sort(
        "worker", "cycle", "start_ns")
    pieces = [rows.select(
        "worker", "cycle", stream=pl.lit(-1), name=pl.lit(COMPUTATION), dur_ns=spent, start_ns=until - pl.col(spent))
        for spent, until in zip(BETWEEN, (pl.col("start_ns"), pl.col("start_ns") + pl.col("dur_ns")), strict=True)]
    return pl.concat(pieces).drop_nulls("dur_ns").filter(pl.col("dur_ns") > 0).select(
        pl.col(name).cast(kind) for name, kind in _KERNELS.items()), rows


def _graph(kernels: pl.DataFrame, moves: pl.DataFrame, workers: tuple[Member, ...], serial: bool) -> JobGraph | str:
    """``serial``: a worker does one thing after the other, however its recorded times overlap."""
    tol = 0 if serial else _TOLERANCE_NS
    lanes = pl.concat([kernels.select("worker", "cycle"), moves.select("worker", "cycle")]).unique().sort(
        "cycle", "worker").with_row_index("lane").with_columns(pl.col("lane").cast(pl.Int64))
    kernels, moves = (rows.join(lanes, on=["worker", "cycle"]).sort("lane", "start_ns") for rows in (kernels, moves))
    moves = _exchanges(moves)
    zero = min(_least(kernels["start_ns"]), _least(moves["start_ns"]))
    room = max(_most(kernels), _most(moves)) - zero + 4 * _TOLERANCE_NS + 2

    def axis(lane: Ints, moment: Ints) -> Ints:
        """Lanes laid end to end, so that one search finds a place in the lane."""
        return lane * room + np.clip(moment - zero + tol, 0, room - 1)

    begin, lane = moves["start_ns"].to_numpy(), moves["lane"].to_numpy()
    end = begin + moves["dur_ns"].to_numpy()
    over = begin if serial else end  # what begins later comes later, even if it was recorded to overlap
    edges = np.sort(np.concatenate((axis(lane, begin), axis(lane, over))))
    of_kernel = kernels["lane"].to_numpy()
    piece = np.searchsorted(edges, axis(of_kernel, kernels["start_ns"].to_numpy() + tol), side="right")
    kernels = kernels.with_columns(piece=pl.Series(piece)).with_columns(
        work=pl.struct("lane", "piece").rank("dense").cast(pl.Int64) - 1, end_ns=pl.col("start_ns") + pl.col("dur_ns"))
    kernels = kernels.with_columns(reach=pl.col("end_ns").cum_max().shift(1).over("work")).with_columns(
        alone=pl.col("dur_ns") if serial else (pl.col("end_ns") - pl.max_horizontal("start_ns", "reach")).clip(0))
    work = kernels.group_by("work").agg(
        pl.col("lane", "worker", "cycle", "stream").first(), pl.col("start_ns").min(), pl.col("end_ns").max(),
        busy_ns=pl.col("alone").sum()).sort("work")
    work_lane, work_begin = work["lane"].to_numpy(), work["start_ns"].to_numpy()
    works = axis(work_lane, work_begin)
    # nodes: stretches, then exchanges' begins, meetings, operations' ends, exchanges' ends
    exchange = moves["exchange"].to_numpy()
    count, parts = len(works), int(exchange.max()) + 1
    meeting = moves.select(
        meeting=pl.when(pl.col("instance").is_not_null()).then(pl.struct("cycle", "instance")).otherwise(
            pl.struct(cycle=pl.lit(-1, pl.Int64), instance=pl.int_range(pl.len()).cast(pl.Int64)))
        .rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
    meetings = int(meeting.max()) + 1
    begins, meets, moved = count, count + parts, count + parts + meetings
    closes = moved + len(begin)
    nodes = closes + parts
    late = np.full(meetings, np.iinfo(np.int64).min)
    np.maximum.at(late, meeting, begin)
    transfer = np.maximum(end - late[meeting], 0)
    first = np.full(parts, len(begin))
    np.minimum.at(first, exchange, np.arange(len(begin)))
    links: list[tuple[Ints, Ints, Floats]] = []

    def link(source: Ints, node: Ints, share: Floats | None = None) -> None:
        links.append((source, node, np.zeros(len(source)) if share is None else share))

    same = np.flatnonzero(work_lane[1:] == work_lane[:-1])
    link(same, same + 1)
    # where a rank's computation stood when an exchange began
    at = np.searchsorted(works, axis(lane[first], begin[first] - tol), side="left") - 1
    has = (at >= 0) & (work_lane[np.maximum(at, 0)] == lane[first])
    stood = at[has]
    length = np.maximum(work["end_ns"].to_numpy() - work_begin, 1)[stood]
    done = np.clip((begin[first][has] - work_begin[stood]) / length, 0, 1)
    done[serial | (begin[first][has] >= work["end_ns"].to_numpy()[stood] - tol)] = 1
    link(stood, begins + np.flatnonzero(has), done - 1)
    before = moves.group_by("exchange").agg(pl.col("lane", "stream").first()).sort("exchange").with_columns(
        before=pl.col("exchange").shift(1).over("lane", "stream"))["before"]
    follows = np.flatnonzero(before.is_not_null().to_numpy())
    link(closes + before.drop_nulls().to_numpy().astype(np.int64), begins + follows)
    link(begins + exchange, meets + meeting)
    link(meets + meeting, moved + np.arange(len(begin)))
    link(moved + np.arange(len(begin)), closes + exchange)
    # computation after what a rank has received, or did on the same stream
    after = np.searchsorted(works, axis(lane, over - tol), side="left")
    at = np.minimum(after, count - 1)
    waits = (after < count) & (work_lane[at] == lane)
    stream = moves["stream"].fill_null(-1).to_numpy()
    waits &= ~moves["sends"].to_numpy() | (work["stream"].fill_null(-1).to_numpy()[at] == stream)
    link(closes + exchange[waits], at[waits])
    cycle = np.zeros(nodes, dtype=np.int64)
    of_lane = lanes["cycle"].rank("dense").cast(pl.Int64).to_numpy() - 1
    cycle[:count] = of_lane[work_lane]
    for base, key in ((begins, exchange), (closes, exchange), (meets, meeting)):
        cycle[base + key] = of_lane[lane]
    cycle[moved : moved + len(begin)] = of_lane[lane]
    graph, place = _levelled(nodes, links, cycle)
    if graph is None:
        return f"the replay of {len(workers)} ranks does not keep their order"
    spans = pl.concat([one.select("cycle", "start_ns", end_ns=pl.col("start_ns") + pl.col("dur_ns"))
                       for one in (kernels, moves)]).group_by("cycle").agg(
        length=pl.col("end_ns").max() - pl.col("start_ns").min())
    return JobGraph(
        graph, work.select("worker", "busy_ns", node=pl.Series(place[:count])),
        kernels.select("work", "worker", "cycle", "name", "start_ns", "dur_ns", "alone"),
        moves.select(
            "worker", "start_ns", talks=_talks(), kind=pl.format("{} {}", "what", "name"),
            what=pl.when(pl.col("what") == MESSAGE).then(pl.format("{} {}", "what", "pair")).otherwise("what"),
            transfer_ns=pl.Series(transfer), node=pl.Series(place[moved : moved + len(begin)])),
        workers, tuple(lanes["cycle"].unique().sort().to_list()),
        float(spans["length"].mean() or 0.0),  # type: ignore[arg-type]
    )


def _talks() -> pl.Expr:
    """Which moves are ends of messages."""
    return pl.col("message").is_not_null() | pl.col("what").is_in(["send", "recv", "sendrecv"])


def _exchanges(moves: pl.DataFrame) -> pl.DataFrame:
    """The rows with the number of their ``exchange``: messages of a stream that begin together share one."""
    talks = _talks()
    near = (pl.col("start_ns") - pl.col("start_ns").shift(1) < TOGETHER_NS) & talks & talks.shift(1)
    keys = ["lane", "stream"]
    moves = moves.sort(*keys, "start_ns", maintain_order=True).with_columns(
        joined=(near & (pl.col("lane") == pl.col("lane").shift(1)) & pl.col("stream").eq_missing(
            pl.col("stream").shift(1))).fill_null(False))
    return moves.with_columns(exchange=(~pl.col("joined")).cum_sum().cast(pl.Int64) - 1)


def _levelled(nodes: int, links: list[tuple[Ints, Ints, Floats]], cycle: Ints) -> tuple[Graph | None, Ints]:
    """The nodes in an order that keeps their dependencies, and the place of each; None where there is no such order."""
    source, node, share = (np.concatenate([one[part] for one in links]) for part in range(3))
    by_source = np.argsort(source, kind="stable")
    out = np.searchsorted(source[by_source], np.arange(nodes + 1))
    target = node[by_source]
    left = np.bincount(node, minlength=nodes)
    place, levels, ready, seen = np.full(nodes, -1), [0], np.flatnonzero(left == 0), 0
    while len(ready):
        place[ready] = seen + np.arange(len(ready))
        seen += len(ready)
        levels.append(seen)
        counts = out[ready + 1] - out[ready]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        reached = target[np.repeat(out[ready], counts) + within]
        np.subtract.at(left, reached, 1)
        reached = np.unique(reached)
        ready = reached[left[reached] == 0]
    if seen < nodes:
        return None, place
    source, node = place[source], place[node]
    order = np.argsort(node, kind="stable")
    in_order = np.empty(nodes, dtype=np.int64)
    in_order[place] = cycle
    return Graph(source[order], share[order], np.searchsorted(node[order], np.arange(nodes + 1)), np.array(levels),
                 in_order, int(cycle.max()) + 1), place


def _least(values: pl.Series) -> int:
    least: Any = values.min()
    return int(least)


def _most(rows: pl.DataFrame) -> int:
    most: Any = (rows["start_ns"] + rows["dur_ns"]).max()
    return int(most)
