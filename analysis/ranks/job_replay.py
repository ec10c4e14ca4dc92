"""What each rank of a job is worth: replays of all ranks together with the computation of one, or of all, evened.

Two questions. *As fast as the others*: the computation of a rank at the lower median of the like operations of the
other ranks. *Slowdown*, as ByteDance's StragglerAnalysis defines it: the job against one in which every computation
takes the mean of its type and every transfer the median of its type, and how much of that one worker, or stage,
explains.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..communication.arrivals import Arrivals, arrivals_of
from ..communication.collectives import Member
from ..contract.options import Options
from ..core.intervals import Ints
from .job_graph import COMPUTATION, Floats, JobGraph, PathStep, job_graph

_VALUES = 12_000_000
"""Most node times in memory at once: scenarios are replayed in chunks."""
_UNWORTHY = 1e-3
"""A rank whose computation would be shorter by less than this share of the cycle saves nothing."""
_LISTED = 16


class JobReplay(Struct, frozen=True):
    """Mean length of a cycle, ns: ``recorded_ns``; ``replayed_ns`` with recorded durations; ``even_ns`` with all ranks
    as fast as the others; ``free_ns`` with communication that takes no time and waits for nobody; ``ideal_ns``.
    ``saved_ns``: per worker, what it saves as fast as the others; ``worker_ns`` and ``stage_ns``: what a worker, and a
    stage, save at ideal. ``stages``: the stage of each worker, None outside pipelines. ``path``: the critical path over
    all ranks in the cycle of median length, whose number is ``path_cycle``."""

    workers: tuple[Member, ...]
    stages: tuple[int | None, ...]
    recorded_ns: float
    replayed_ns: float
    even_ns: float
    free_ns: float
    ideal_ns: float
    saved_ns: tuple[float, ...]
    worker_ns: tuple[float, ...]
    stage_ns: dict[int, float]
    path_cycle: int
    path: tuple[PathStep, ...]

    @property
    def error(self) -> float:
        """Replayed / recorded − 1."""
        return self.replayed_ns / max(self.recorded_ns, 1.0) - 1

    @property
    def slowdown(self) -> dict[str, Any] | None:
        """``ratio recorded_ns ideal_ns worst stages``; shares are of what the whole job would save at ideal."""
        most = self.replayed_ns - self.ideal_ns
        if self.ideal_ns <= 0:
            return None

        def share(saved: float) -> float | None:
            return saved / most if most > 0 else None

        workers = sorted(range(len(self.workers)), key=lambda at: -self.worker_ns[at])[:_LISTED]
        stages = sorted(self.stage_ns, key=lambda stage: -self.stage_ns[stage])
        return {
            "ratio": self.replayed_ns / self.ideal_ns, "recorded_ns": round(self.replayed_ns),
            "ideal_ns": round(self.ideal_ns),
            "worst": [{"rank": self.workers[at].rank, "stage": self.stages[at], "share": share(self.worker_ns[at]),
                       "saved_ns": round(self.worker_ns[at])} for at in workers],
            "stages": [{"stage": stage, "share": share(self.stage_ns[stage]), "saved_ns": round(self.stage_ns[stage])}
                       for stage in stages],
        }


def job_replay_of(run: Trace, options: Options) -> JobReplay | str | None:
    """The replay of a job's ranks, cached; None without shared operations, or the reason why it is refused."""
    return run.remember("job replay", (options.cycle_anchor,), lambda: _replayed(run, options))


def _replayed(run: Trace, options: Options) -> JobReplay | str | None:
    arrivals = arrivals_of(run)
    job = job_graph(run, arrivals, options)
    if job is None or isinstance(job, str):
        return job
    stages = stages_of(arrivals)
    shorter = job.kernels.select("work", "worker", "dur_ns", even=_even(job.kernels), ideal=_mean(job.kernels))
    sums = shorter.group_by("work").agg(pl.col("dur_ns", "even", "ideal").sum()).sort("work")
    busy, node = job.work["busy_ns"].to_numpy().astype(np.float64), job.work["node"].to_numpy()
    spent = sums["dur_ns"].to_numpy()
    share = np.where(spent > 0, busy / np.maximum(spent, 1), 1.0)  # kernels of several streams overlap
    even, ideal = (share * sums[name].to_numpy() for name in ("even", "ideal"))
    worker, moves = job.work["worker"].to_numpy(), job.moves
    transfer, moved = moves["transfer_ns"].to_numpy().astype(np.float64), moves["node"].to_numpy()
    usual = moves.select(pl.col("transfer_ns").median().over("kind")).to_series().to_numpy()
    of_move = moves["worker"].to_numpy()
    recorded = np.zeros(len(job.graph.cycle))
    recorded[node], recorded[moved] = busy, transfer

    def scenario(some: Ints, works: Floats, others: Ints, moving: Floats) -> Floats:
        weight = recorded.copy()
        weight[node[some]] = works[some]
        weight[moved[others]] = moving[others]
        return weight

    nothing, every, all_moves = np.zeros(0, dtype=np.int64), np.arange(len(busy)), np.arange(len(transfer))
    count = len(job.workers)
    cut = np.zeros(count)
    np.add.at(cut, worker, busy - even)
    tried = [at for at in range(count) if cut[at] > _UNWORTHY * job.recorded_ns * job.graph.cycles]
    excess = np.zeros(count)
    np.add.at(excess, worker, busy - ideal)
    listed = sorted(range(count), key=lambda at: -excess[at])[: 4 * _LISTED]
    numbers = sorted({stage for stage in stages if stage is not None})
    of_stage = np.array([-1 if stage is None else stage for stage in stages])
    plans = [(nothing, busy, nothing, transfer), (every, even, nothing, transfer),
             (every, ideal, all_moves, usual)]
    plans += [(np.flatnonzero(worker == at), even, nothing, transfer) for at in tried]
    plans += [(np.flatnonzero(worker == at), ideal, np.flatnonzero(of_move == at), usual) for at in listed]
    plans += [(np.flatnonzero(of_stage[worker] == stage), ideal, np.flatnonzero(of_stage[of_move] == stage), usual)
              for stage in numbers]
    lengths, each = list[float](), max(1, _VALUES // max(len(recorded), 1))
    for at in range(0, len(plans), each):
        lengths += job.graph.length(np.stack([scenario(*plan) for plan in plans[at : at + each]], axis=1)).tolist()
    replayed = lengths[0]
    saved = [max(0.0, replayed - one) for one in lengths[3:]]
    own, at_ideal = [0.0] * count, [0.0] * count
    for at, one in zip(tried, saved, strict=False):
        own[at] = one
    for at, one in zip(listed, saved[len(tried) :], strict=False):
        at_ideal[at] = one
    of_stages = dict(zip(numbers, saved[len(tried) + len(listed) :], strict=True))
    if max((replayed, *saved)) > 1.02 * job.recorded_ns + 1:
        return f"the replay of {count} ranks does not keep their order"
    return JobReplay(job.workers, stages, job.recorded_ns, replayed, lengths[1], _free(job), lengths[2],
                     tuple(own), tuple(at_ideal), of_stages, *job.path(recorded))


def _free(job: JobGraph) -> float:
    """The mean length of a cycle (ns) without communication: the longest computation of a rank."""
    own = job.work.with_columns(cycle=pl.Series(job.graph.cycle[job.work["node"].to_numpy()])).group_by(
        "cycle", "worker").agg(pl.col("busy_ns").sum())
    mean = own.group_by("cycle").agg(pl.col("busy_ns").max())["busy_ns"].mean()
    return float(mean or 0.0)  # type: ignore[arg-type]


def _mean(kernels: pl.DataFrame) -> pl.Series:
    """The mean duration of kernels of the same name on all ranks and in all cycles; where names are not recorded, as
    if every rank computed as long as their mean."""
    if _nameless(kernels):
        own = pl.col("dur_ns").sum().over("worker", "cycle")
        number = kernels.select("worker", "cycle").unique().height
        return kernels.select(pl.col("dur_ns") * (pl.col("dur_ns").sum() / number) / own).to_series()
    return kernels.select(pl.col("dur_ns").mean().over("name")).to_series()


def _even(kernels: pl.DataFrame) -> pl.Series:
    """The lower median of the like kernels of the other workers: same cycle, name and occurrence; the own duration
    where there are none. Where names are not recorded, as if it computed as long as the lower median of the others in
    that cycle."""
    if _nameless(kernels):
        sums = kernels.group_by("worker", "cycle").agg(pl.col("dur_ns").sum(), name=pl.lit(""))
        factor = sums.with_columns(factor=_even(sums) / sums["dur_ns"])
        return kernels.join(factor.select("worker", "cycle", "factor"), on=["worker", "cycle"], how="left",
                            maintain_order="left").select(pl.col("dur_ns") * pl.col("factor")).to_series()
    rows = kernels.with_row_index("row").with_columns(nth=pl.int_range(pl.len()).over("worker", "cycle", "name"))
    rows = rows.sort("cycle", "name", "nth", "dur_ns", "worker").with_row_index("at").with_columns(
        place=pl.int_range(pl.len()).over("cycle", "name", "nth"), alike=pl.len().over("cycle", "name", "nth"),
        begin=pl.col("at").first().over("cycle", "name", "nth"))
    place, alike, begin = (rows[name].cast(pl.Int64).to_numpy() for name in ("place", "alike", "begin"))
    middle = np.maximum((alike - 2) // 2, 0)
    taken = np.where(alike > 1, begin + np.where(middle < place, middle, middle + 1), np.arange(rows.height))
    return rows.with_columns(even=rows["dur_ns"].gather(taken)).sort("row")["even"]


def _nameless(kernels: pl.DataFrame) -> bool:
    return bool(kernels["name"].head(1).eq(COMPUTATION).all())


def stages_of(arrivals: Arrivals) -> tuple[int | None, ...]:
    """The stage of each member in its pipeline, by rank among those that messages connect; None without messages."""
    stages: list[int | None] = [None] * len(arrivals.members)
    for pipeline in pipelines_of(arrivals):
        for number, member in enumerate(pipeline):
            stages[member] = number
    return tuple(stages)


def pipelines_of(arrivals: Arrivals) -> list[Sequence[int]]:
    """The members that messages connect, each set in order of rank."""
    paired = arrivals.frame.filter(pl.col("instance").is_not_null(), pl.col("message").is_not_null())
    pairs = arrivals.messages.frame.filter(pl.col("number").is_in(paired["message"].implode())) if (
        arrivals.messages.frame.width) else arrivals.messages.frame
    if pairs.is_empty():
        return []
    root = list(range(len(arrivals.members)))

    def top(at: int) -> int:
        while root[at] != at:
            at = root[at]
        return at

    for one, other in pairs.select("src", "dst").unique().rows():
        root[max(top(one), top(other))] = min(top(one), top(other))
    sets: dict[int, list[int]] = {}
    for member in sorted({*pairs["src"], *pairs["dst"]}):
        sets.setdefault(top(member), []).append(member)
    return [sets[key] for key in sorted(sets)]
