"""Which process each device of a file belongs to, where a tool has merged the recordings of several processes into one.

Correlation ids, External ids and streams count per process. Two host processes are two recordings if their launch calls
use the same correlation ids, or if both have the same step marks; a recording whose loader processes were forked, or
whose one process drives several devices, is neither.
"""

from __future__ import annotations

from typing import Protocol

import polars as pl

COLLIDE = 0.05
"""Share of the correlation ids of launch calls, used by several processes, above which they are two recordings."""
AS_GOOD = 0.999
UNEXPLAINED = 0.1
STEP_MARK = "ProfilerStep#"
LANE = pl.coalesce("lane", pl.col("device").cast(pl.String).str.extract(r"(\d+)$").cast(pl.Int64))
"""The process id of an activity's lane."""
_CALLS = ("runtime", "driver")


class RecordedTables(Protocol):
    """The tables of a Trace."""

    @property
    def kernels(self) -> pl.LazyFrame:
        """Activities; ``lane`` is the process id of their lane, where it is not the number of the device."""
        ...

    @property
    def host(self) -> pl.LazyFrame:
        """Host slices."""
        ...


class Collision(Exception):
    """The numbers of several processes collide and nothing tells whose the activities are."""


def homes_of(tables: RecordedTables) -> dict[int, int]:
    """Host process of each process of device lanes, and each host process that made calls itself; empty where the
    file is the recording of one process. Raises Collision."""
    calls = tables.host.filter(pl.col("kind").is_in(_CALLS), pl.col("pid").is_not_null()).select(
        "pid", "correlation", "start_ns", "offset").collect(engine="streaming")
    if calls["pid"].n_unique() < 2:
        return {}
    calls = calls.filter(pl.col("correlation").is_not_null() & (pl.col("correlation") != 0))
    work = tables.kernels.filter(pl.col("kind") != "sync").select(
        "correlation", "start_ns", "offset", pid=LANE).drop_nulls("pid").collect(engine="streaming")
    users = calls.group_by("correlation").agg(pl.col("pid").n_unique())
    if users.height and (users["pid"] > 1).mean() > COLLIDE:  # type: ignore[operator]
        return _by_time(tables, calls, work)
    return _by_steps(tables, calls, work)


def _by_time(tables: RecordedTables, calls: pl.DataFrame, work: pl.DataFrame) -> dict[int, int]:
    """Each device lane goes to the process in which most of its activities have a call that begins no later; of several
    as good ones to the last that begins in the file before the lane does."""
    last = calls.unique(["pid", "correlation"], keep="last", maintain_order=True)
    fits = work.join(last, on="correlation", suffix="_call").filter(pl.col("start_ns_call") <= pl.col("start_ns"))
    explained = fits["offset"].n_unique()
    if explained < (1 - UNEXPLAINED) * work.height:
        raise Collision(int(calls["pid"].n_unique()))
    first = tables.host.group_by("pid").agg(pl.col("offset").min()).collect()
    begins = dict(first.drop_nulls().rows())
    counted = fits.group_by("pid", "pid_call").agg(pl.col("offset").n_unique().alias("count"))
    homes = {pid: pid for pid in calls["pid"].unique()}
    for (lane,), some in counted.group_by("pid"):
        most = int(some["count"].max())  # type: ignore[arg-type]
        best = some.filter(pl.col("count") >= AS_GOOD * most)["pid_call"].to_list()
        if len(best) > 1:
            begun = int(work.filter(pl.col("pid") == lane)["offset"].min())  # type: ignore[arg-type]
            before = [pid for pid in best if begins.get(pid, 0) < begun]
            best = [max(before or best, key=lambda pid: begins.get(pid, 0))]
        homes[int(lane)] = int(best[0])
    return homes


def _by_steps(tables: RecordedTables, calls: pl.DataFrame, work: pl.DataFrame) -> dict[int, int]:
    """Where processes have the same step marks, each device lane goes to the one that launches most on it."""
    marks = tables.host.filter(pl.col("kind").is_in(["annotation", "op"])).select(
        "pid", pl.col("name").cast(pl.String)).filter(pl.col("name").str.starts_with(STEP_MARK)).collect()
    shared = marks.group_by("name").agg(pl.col("pid").unique()).filter(pl.col("pid").list.len() > 1)
    twice = set(shared["pid"].explode().to_list()) if shared.height else set()
    if len(twice) < 2:
        return {}
    owner = calls.unique("correlation", keep="last").select("correlation", home="pid")
    votes = work.join(owner, on="correlation").filter(pl.col("home").is_in(list(twice))).group_by("pid", "home").len()
    homes = dict(votes.sort("len").select("pid", "home").rows())  # the last of a lane has most
    if len(set(homes.values())) < 2:
        return {}
    return homes | {pid: pid for pid in calls["pid"].unique()}
