"""What a file holds of several processes, and twice: ranks by label, collision or step marks; repeats; flows to calls.

Each costs a pass over the tables at most, and only files that need it are rewritten.
"""

from __future__ import annotations

import polars as pl
from msgspec.structs import replace

from ..account.processes import LANE, STEP_MARK, Collision, homes_of
from ..account.repeats import counted_once, rewritten
from ..errors import Unreadable
from ..loader import Job
from ..trace import Trace
from .dialect import MOST_LABELLED, label_in, rank_in
from .flows import changed, tie_calls
from .tables import Tables

_FLOWS = ("ac2g", "async_cpu_to_gpu", "async")


def untangled(trace: Trace, job: Job, tables: Tables, origin: int) -> Trace:
    """The trace with each event once, a rank for each process and the calls that flows name. Raises Unreadable."""
    labels = {label: rank_in(text) for text in tables.texts.strings.texts
              if text.startswith("[") and (label := label_in(text)) is not None}
    ranks = set(trace.info.ranks)
    labels = {label: rank for label, rank in labels.items() if rank in ranks}
    if suspects := [name for name in ("kernels", "host") if tables.may_repeat(name)]:
        trace = counted_once(trace, job, ("kernels", "host") if "kernels" in suspects else ("host",))
    if labels:
        trace = _labelled(trace, job, labels)
    elif len(tables.launchers) > 1 and len(trace.info.ranks) < 2:
        trace = _by_home(trace, job)
    if any(flow in tables.strings for flow in _FLOWS):
        trace = tie_calls(trace, job, origin, _FLOWS)
    return trace


def _labelled(trace: Trace, job: Job, labels: dict[str, int]) -> Trace:
    """The trace with ranks as its labels have them; of labels with several numbers in their order."""
    order = {rank: at for at, rank in enumerate(sorted(labels.values()))}
    if max(order) >= MOST_LABELLED:
        moved = {
            name: rewritten(name, trace.table(name).with_columns(pl.col("rank").replace(order)), job)
            if name != "cycles" else trace.cycles.with_columns(pl.col("rank").replace(order))
            for name in ("kernels", "host", "cycles")
        }
        labels = {label: order[rank] for label, rank in labels.items()}
        ranks = tuple(sorted({order.get(rank, rank) for rank in trace.info.ranks}))
        trace = replace(trace, info=replace(trace.info, ranks=ranks)).with_tables(**moved)
    return _named(trace, {rank: label for label, rank in labels.items()})


def _by_home(trace: Trace, job: Job) -> Trace:
    """The trace with ranks for the processes of a merged file, in their order in it."""
    try:
        homes = homes_of(trace)
    except Collision as error:
        raise Unreadable(
            job.path, f"holds events of {error.args[0]} processes whose numbers collide, and which activity is whose "
            "is not recorded", "Open the recordings of the processes in one folder instead of merging them.") from None
    if len(set(homes.values())) < 2:
        return trace
    first = trace.host.group_by("pid").agg(pl.col("offset").min()).sort("offset").collect()["pid"].to_list()
    hosts = sorted(set(homes.values()), key=lambda pid: first.index(pid) if pid in first else len(first))
    rank = {pid: at for at, pid in enumerate(hosts)}
    of_lane = {lane: rank[home] for lane, home in homes.items()}
    kernels = trace.kernels.with_row_index("row").select(
        "row", rank=LANE.replace_strict(of_lane, default=None)).collect()
    kernels = kernels.with_columns(pid=pl.col("rank").replace_strict(dict(enumerate(hosts)), default=None))
    host = trace.host.with_row_index("row").select(
        "row", rank=pl.col("pid").replace_strict(rank, default=None)).collect()
    moved = {
        "kernels": changed("kernels", trace.kernels, kernels.cast({"rank": pl.Int64, "pid": pl.Int64}), job),
        "host": changed("host", trace.host, host.cast({"rank": pl.Int64}), job),
    }
    info = replace(trace.info, ranks=tuple(range(len(hosts))))
    trace = replace(trace, info=info).with_tables(**moved)
    marks = trace.host.filter(pl.col("kind").is_in(["annotation", "op"]), pl.col("rank").is_not_null()).select(
        "start_ns", "dur_ns", "rank", label=pl.col("name").cast(pl.String)).filter(
        pl.col("label").str.starts_with(STEP_MARK))
    steps = trace.cycles.select("cycle", "label").unique().with_columns(pl.col("label").cast(pl.String)).join(
        marks, on="label").sort("rank", "start_ns").with_columns(
        kind=pl.lit("step"), source=pl.lit("recorded"), complete=True)
    if trace.has("cycles"):
        from .. import schema

        trace = trace.with_tables(cycles=schema.conform("cycles", steps.collect().lazy()))
    return _named(trace, {at: str(pid) for at, pid in enumerate(hosts)})


def _named(trace: Trace, processes: dict[int, str]) -> Trace:
    names = {str(rank): name for rank, name in sorted(processes.items())}
    return replace(trace, info=replace(trace.info, facts=trace.info.facts | {"processes": names}))
