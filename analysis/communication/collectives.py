"""The collectives devices ran, one row an activity: what kind, which group, how many bytes, and who took part.

A member is what takes part in a collective: a device of a rank. Activities without a time or a duration are left out.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl
from msgspec import Struct

from ...loaders.trace import REDUCED, Trace
from . import kinds

RECORDED = ("collective", "process_group", "group_ranks", "dtype")
BEFORE = ("before_ns", "work_ns", "copies_ns", "loading_ns", "unlaunched_ns")
"""What a member did from its previous collective to this one."""
PREPARED = ("cycle", "exposed_ns", *BEFORE)
"""What a reduced dataset says of each collective beside what was recorded of it; null of a recording."""


class Member(NamedTuple):
    """A device of a rank; either is None where it is not recorded."""

    rank: int | None
    device: str | None

    @property
    def text(self) -> str:
        """What it is called: the rank where there is one."""
        return f"rank {self.rank}" if self.rank is not None else self.device or "the device"


class Collectives(Struct, frozen=True):
    """``frame`` has a row for each activity, in order of member and start, with the columns ``index member start_ns
    dur_ns end_ns name kind group group_ranks dtype bytes ranks seq correlation stream`` and ``PREPARED``; ``member`` is
    a place in ``members``, ``ranks`` the size of the group as recorded, ``bytes`` null where size or type is not."""

    frame: pl.DataFrame
    members: tuple[Member, ...]


def recorded(run: Trace) -> pl.LazyFrame:
    """The activities of collectives, from the launches or from a reduced dataset."""
    if REDUCED in run.info.facts:
        return run.collectives.with_columns(correlation=pl.lit(None, pl.Int64))
    return run.kernels.filter(pl.col("kind") == "collective").with_columns(
        pl.lit(None, pl.Int64).alias(name) for name in PREPARED
    )


def collectives_of(run: Trace) -> Collectives:
    """Every collective of the run's devices."""
    rows = (
        recorded(run)
        .select(
            "index", "start_ns", "dur_ns", "rank", "seq", "group_size", "correlation", "stream", *PREPARED,
            pl.max_horizontal("in_elements", "out_elements").alias("elements"),
            *(pl.col(name).cast(pl.String) for name in (*RECORDED, "name", "device")),
        )
        .drop_nulls(["start_ns", "dur_ns"]).collect(engine="streaming")
    )
    order = {name: pl.col(name) for name in ("rank", "device")}
    members = rows.select("rank", "device").unique().sort(
        "rank", order["device"].str.len_chars(), "device", nulls_last=True
    ).with_row_index("member")
    rows = rows.join(members, on=["rank", "device"], how="left", nulls_equal=True)
    told = pl.col("collective").map_elements(kinds.kind_of, pl.String, skip_nulls=False)
    named = pl.col("name").map_elements(kinds.kind_of, pl.String, skip_nulls=False)
    words = rows.select("collective", "name").unique().with_columns(
        kind=pl.when(pl.col("collective").is_null()).then(named).otherwise(told)
    )
    sizes = rows.select("dtype").unique().with_columns(
        each=pl.col("dtype").map_elements(kinds.element_bytes, pl.Int64, skip_nulls=False)
    )
    frame = rows.join(words, on=["collective", "name"], how="left", nulls_equal=True).join(
        sizes, on="dtype", how="left", nulls_equal=True
    ).with_columns(
        pl.col("member").cast(pl.Int64), pl.col("dur_ns").clip(lower_bound=0),
        (pl.col("elements") * pl.col("each")).alias("bytes"), group=pl.col("process_group"), ranks=pl.col("group_size"),
    ).with_columns(end_ns=pl.col("start_ns") + pl.col("dur_ns")).sort("member", "start_ns", "index")
    return Collectives(
        frame.select(
            "index", "member", "start_ns", "dur_ns", "end_ns", "name", "kind", "group", "group_ranks", "dtype", "bytes",
            "ranks", "seq", "correlation", "stream", *PREPARED,
        ),
        tuple(Member(rank, device) for rank, device in members.select("rank", "device").rows()),
    )
