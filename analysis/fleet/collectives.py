"""The collectives of a recording with what its devices did before each, so that nobody need ask the recording again."""

from __future__ import annotations

import numpy as np
import polars as pl

from ...loaders import schema
from ...loaders.trace import Trace
from ..communication.by_kind import exposed
from ..communication.collectives import BEFORE, Member, collectives_of
from ..communication.reasons import stretches
from ..contract.options import Options
from ..cycles.by_launch import cycle_of

_RECORDED = (
    "collective", "process_group", "group_ranks", "group_size", "dtype", "in_elements", "out_elements", "seq", "stream",
    "name", "device", "rank",
)


def collectives(run: Trace, options: Options) -> pl.DataFrame:
    """The table ``collectives`` of the run, in order of device and start."""
    found = collectives_of(run)
    if found.frame.is_empty():
        return schema.empty("collectives").collect()
    frame = found.frame.select("index", "member", "start_ns", "dur_ns", "end_ns", "correlation")
    cycle = cycle_of(run, frame.lazy(), options)
    frame = frame.with_columns(
        exposed_ns=pl.Series(exposed(run, found.frame, found.members), dtype=pl.Int64),
        cycle=pl.lit(None, pl.Int64) if cycle is None else cycle,
        from_ns=pl.col("end_ns").cum_max().shift(1).over("member"),
    )
    parts = [_before(run, found.members[member], rows) for (member,), rows in frame.group_by(
        "member", maintain_order=True)]
    recorded = run.kernels.filter(pl.col("kind") == "collective").select("index", *_RECORDED)
    rows = pl.concat(parts).lazy().join(recorded, on="index", how="left", maintain_order="left")
    return rows.collect(engine="streaming")


def _before(run: Trace, who: Member, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of one device with ``BEFORE``, null where it is its first collective."""
    first = rows["from_ns"].is_null()
    bounds = rows.select(
        "correlation", from_ns=pl.min_horizontal(pl.coalesce("from_ns", "start_ns"), "start_ns"), to_ns="start_ns"
    )
    told = stretches(run, who, bounds)
    return rows.drop("correlation", "from_ns", "end_ns", "member").with_columns(
        pl.Series(name, np.asarray(values), dtype=pl.Int64).set(first, None)
        for name, values in zip(BEFORE, told, strict=True)
    )
