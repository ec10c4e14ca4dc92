"""Events that a file holds twice, in every recorded value: the first counts.

Merging tools and recorders that flush twice repeat events bit by bit. Only events with a start and a duration above 0
can be told to be repeats: two instants, or two launches without times, may be two.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
from msgspec.structs import replace

from .. import schema
from ..loader import Job
from ..trace import Trace

_KEYS = {
    "kernels": ("start_ns", "dur_ns", "name", "kind", "device", "stream", "lane", "rank", "correlation", "op_id"),
    "host": ("start_ns", "dur_ns", "name", "kind", "pid", "tid", "rank", "correlation", "external_id"),
}
_COUNTED = ("kernel", "collective", "memcpy", "memset", "op", "runtime", "driver", "annotation", "dataloader")
"""Kinds that are counted once: other slices, as of a sampler, may rightly be equal."""


def counted_once(trace: Trace, job: Job, tables: Iterable[str]) -> Trace:
    """The trace without repeats in these tables, which are counted."""
    kept, repeats = dict[str, pl.LazyFrame](), 0
    for name in tables:
        mask = repeated(name, trace.table(name))
        if mask is not None:
            repeats += int(mask.sum())
            rows = trace.table(name).filter(~mask)
            kept[name] = rewritten(name, rows.drop("index").with_row_index("index") if name == "kernels" else rows, job)
    if not kept:
        return trace
    kept["cycles"] = trace.cycles.unique(maintain_order=True)
    events = "event is" if repeats == 1 else "events are"
    info = replace(trace.info, facts=trace.info.facts | {"repeats": repeats})
    return replace(trace, info=info).with_tables(**kept).warn(f"{repeats:,} {events} recorded twice; counted once")


def without_repeats(trace: Trace, job: Job) -> Trace:
    """``counted_once`` of tables in order of time, which are looked at where two rows begin at once."""
    at_once = (pl.col("start_ns").diff() == 0).any()
    suspects = [name for name in ("kernels", "host") if trace.has(name)
                and trace.table(name).select(at_once).collect(engine="streaming").item()]
    return counted_once(trace, job, suspects)


def rewritten(name: str, table: pl.LazyFrame, job: Job) -> pl.LazyFrame:
    """The table in place of the one that the load has written; in memory where it has not (``lasting``)."""
    merged = schema.conform(name, table)
    if not job.lasting:
        return merged.collect().lazy()
    unfinished, path = job.workspace / f".{name}.arrow", job.workspace / f"{name}.arrow"
    merged.sink_ipc(unfinished, compression="lz4", maintain_order=True)
    for old in (*job.workspace.glob(f"{name}.arrow"), *job.workspace.glob(f"{name}-*.arrow")):
        old.unlink()
    unfinished.rename(path)
    return schema.conform(name, pl.scan_ipc(path))


def repeated(table: str, frame: pl.LazyFrame) -> pl.Series | None:
    """Which rows repeat an earlier one; None if none does."""
    rows = frame.select(_KEYS[table]).collect(engine="streaming")
    able = (rows["dur_ns"] > 0).fill_null(False) & rows["start_ns"].is_not_null()
    able &= rows["kind"].is_in(_COUNTED).fill_null(False)
    mask = able & ~rows.with_columns(pl.col(pl.Categorical).to_physical()).hash_rows(seed=1).is_first_distinct()
    return mask if mask.any() else None
