"""The rows of the collectives view: one per kind, group, type and size, with times, bandwidths and who came last.

A collective that several members recorded counts once; times are sums over the members. A collective that only one
member recorded has no wait; its bandwidth then counts its whole duration, waiting included: it is a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from ...loaders.trace import REDUCED, Trace
from ..core.covered import COMPUTES, covered, timed
from ..core.distribution import fence
from ..core.intervals import Ints
from ..core.quantiles import latencies
from .arrivals import Arrivals
from .collectives import ONE_SIZE, Member, bus_factor

KEYS = ("kind", "name", "group", "pair", "ranks", "dtype", "bytes")
_SIZE = "_size"


def by_kind(run: Trace, arrivals: Arrivals, by_name: bool = True) -> pl.DataFrame:
    """The rows, most time first. Without ``by_name`` all kernel names share a row, under the most common name."""
    frame = arrivals.frame
    if REDUCED not in run.info.facts:
        frame = frame.with_columns(exposed_ns=pl.Series(exposed_per_call(run, frame, arrivals.members), dtype=pl.Int64))
    frame = frame.with_columns(
        unit=pl.coalesce("instance", -1 - pl.int_range(pl.len())),
        **{_SIZE: pl.when(pl.col("kind").is_in(ONE_SIZE)).then("bytes")},
    ).with_columns(ranks=pl.coalesce("ranks", pl.col("parties").cast(pl.Int64)))
    keys = [key for key in (*KEYS[:-1], _SIZE) if by_name or key != "name"]
    frame = frame.with_columns(row=pl.struct(keys).rank("dense").cast(pl.Int64) - 1)
    rows = frame.group_by("row", *keys).agg(
        *([] if by_name else [pl.col("name").mode().sort().first()]),
        count=pl.col("unit").n_unique().cast(pl.Int64), launches=pl.len().cast(pl.Int64),
        total_ns=pl.col("dur_ns").sum(), exposed_ns=pl.col("exposed_ns").sum(),
        wait_ns=_measured("wait_ns"), transfer_ns=_measured("transfer_ns"),
        usual=pl.col("bytes").median().round().cast(pl.Int64), last_lead_ns=pl.col("lead_ns").median(),
    ).join(_units(frame), on="row", how="left").join(_last(frame, arrivals), on="row", how="left").sort("row")
    durations = frame.select("row", pl.col("dur_ns")).to_numpy()
    shapes: list[list[int]] = []
    if rows.height:
        shapes = latencies(durations[:, 0], durations[:, 1], rows.height).histograms().tolist()
    kind, ranks = pl.col("kind"), pl.col("ranks")
    rows = rows.with_columns(
        bytes=pl.col(_SIZE) if not by_name else pl.coalesce(_SIZE, "usual"),
        trend=pl.Series(shapes, dtype=pl.List(pl.Int64)),
        algbw=pl.when(pl.col("p50_ns") > 0).then(pl.col("usual") / (pl.col("p50_ns") / 1e9)),
    ).with_columns(busbw=pl.col("algbw") * bus_factor(kind, ranks))
    return rows.sort("total_ns", "row", descending=[True, False])


def _measured(name: str) -> pl.Expr:
    """The sum, null where nothing was measured."""
    return pl.when(pl.col(name).count() > 0).then(pl.col(name).sum())


def _units(frame: pl.DataFrame) -> pl.DataFrame:
    """Per row, figures of single collectives: median transfer, number of outliers, mean imbalance of bytes."""
    units = frame.group_by("row", "unit").agg(
        took=pl.col("dur_ns").min(), uneven=pl.col("bytes").max() / pl.col("bytes").mean(), parties=pl.len()
    )
    return units.group_by("row").agg(
        p50_ns=pl.col("took").median(),
        outliers=pl.col("took").map_batches(
            lambda took: int((took.cast(pl.Float64).to_numpy() > fence(took.cast(pl.Float64).to_numpy())).sum()),
            return_dtype=pl.Int64, returns_scalar=True,
        ),
        imbalance=pl.col("uneven").filter(pl.col("parties") > 1).mean(),
    )


def _last(frame: pl.DataFrame, arrivals: Arrivals) -> pl.DataFrame:
    """Per row, the member that came last most often, and at what share of the matched collectives."""
    came = frame.filter(pl.col("last").fill_null(False)).group_by("row", "member").len("times")
    most = came.sort("times", "member", descending=[True, False]).group_by("row", maintain_order=True).first()
    several = frame.group_by("row").agg(matched=pl.col("instance").drop_nulls().n_unique())
    members = pl.DataFrame(
        {"last_rank": [one.rank for one in arrivals.members], "last_device": [one.device for one in arrivals.members]},
        schema={"last_rank": pl.Int64, "last_device": pl.String},
    ).with_row_index("member").with_columns(pl.col("member").cast(pl.Int64))
    return most.join(several, on="row").join(members, on="member").select(
        "row", "last_rank", "last_device", last_share=pl.col("times") / pl.col("matched")
    )


def exposed_per_call(run: Trace, frame: pl.DataFrame, members: Sequence[Member]) -> Ints:
    """The exposed time of each activity (rows of ``Collectives.frame``): its device computed nothing meanwhile, ns."""
    places = pl.DataFrame([(at, one.rank, one.device) for at, one in enumerate(members)], orient="row",
                          schema={"member": frame.schema["member"], "rank": pl.Int64, "device": pl.String})
    rows = frame.select("member", "start_ns", "dur_ns").with_row_index("row").join(
        places, on="member", how="left", maintain_order="left")
    work = timed(run, COMPUTES).with_columns(pl.col("device").cast(pl.String))
    alone = rows.select("row").join(covered(rows, ("row",), work), on="row", how="left", maintain_order="left")
    return alone["time_ns"].fill_null(0).to_numpy()
