"""Who came when to each collective, on one clock: how long each waited, how long the transfer took, who was last.

A member waits from its own arrival to the last one's, and never longer than its own activity ran. The transfer is the
shortest of the durations, the time of who waited for nobody.

Matched activities are one collective only where they ran at the same moment, on the common clock. Order within a group
also matches what never met: the recording of one rank may begin in another collective than that of
the next, or two files of one folder may be of different jobs. Waits would then be longer than anything that was
recorded. A member whose ends fit those of the others worse than a collective lasts has no common clock with them.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...loaders.trace import Trace
from .clocks import Clocks, clocks_of
from .collectives import Collectives, Member, collectives_of
from .matching import MatchedCollectives, matched


def overlapping(frame: pl.DataFrame, clocks: Clocks) -> pl.DataFrame:
    """The activities (``instance member start_ns end_ns dur_ns``) with ``instance`` null where they met no other. Of a
    collective those stay that ran at the moment at which most of its members did, as exactly as clocks are known."""
    rows = frame.select("instance", "member", "start_ns", "end_ns", "dur_ns").with_row_index("row")
    rows = rows.drop_nulls("instance")
    if rows.is_empty():
        return frame
    offset = pl.lit(pl.Series(np.nan_to_num(clocks.offset))).gather(pl.col("member"))
    doubt = pl.lit(pl.Series(np.nan_to_num(clocks.residual))).gather(pl.col("member"))
    rows = rows.with_columns(
        come=pl.col("start_ns") - offset - doubt, leave=pl.col("end_ns") - offset + doubt, doubt=doubt,
        longest=pl.col("dur_ns").max().over("instance"),
    ).with_columns(clock=pl.col("doubt").first().over("member") <= pl.col("longest").median().over("member"))
    rows = rows.filter("clock")
    apart = rows.filter(pl.col("come").max().over("instance") > pl.col("leave").min().over("instance"))
    met = rows.join(_moments(apart), on="instance", how="left").filter(
        pl.col("moment").is_null() | pl.col("moment").is_between("come", "leave")
    ).filter(pl.len().over("instance") > 1)
    stays = np.zeros(frame.height, dtype=bool)
    stays[met["row"].to_numpy()] = True
    return frame.with_columns(instance=pl.when(pl.Series(stays)).then("instance"))


def _moments(rows: pl.DataFrame) -> pl.DataFrame:
    """``instance moment``: the first moment at which most of the activities of each collective ran."""
    sides = (("come", 1), ("leave", -1))
    edges = pl.concat([rows.select("instance", moment=side, step=pl.lit(step)) for side, step in sides])
    edges = edges.sort("instance", "moment", "step", descending=[False, False, True])
    running = edges.with_columns(running=pl.col("step").cum_sum().over("instance"))
    most = running.filter(pl.col("running") == pl.col("running").max().over("instance"))
    return most.unique("instance", keep="first", maintain_order=True).select("instance", "moment")


class Arrivals(Struct, frozen=True):
    """The collectives of a run with who waited for whom. ``frame`` has the columns of ``Collectives.frame`` and
    ``instance``, and of matched ones ``arrival_ns`` (float, on the clock of the first member), ``wait_ns``,
    ``transfer_ns``, ``lead_ns`` (how far behind the second last the last one came), ``last`` (whether this member was
    it), ``parties`` (how many members were recorded) and ``caused_ns`` (of the last one: what all others waited
    together), null for others. ``apart`` counts activities that number or order match and that ran at other times."""

    frame: pl.DataFrame
    members: tuple[Member, ...]
    clocks: Clocks
    matching: MatchedCollectives
    apart: int = 0

    @property
    def count(self) -> int:
        """How many collectives were matched."""
        return int(self.frame["instance"].drop_nulls().n_unique())

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of the matching and the clocks."""
        said = []
        if len(self.members) > 1 and not self.count:
            said.append("No collective was found on several ranks: waits are unknown and clocks are as recorded.")
        elif self.matching.unmatched:
            said.append(f"{self.matching.unmatched:,} of {self.frame.height:,} collectives have no counterpart on "
                        "another rank: their waits are unknown.")
        if self.apart:
            said.append(f"{self.apart:,} collectives never overlapped with those that order or number match them with.")
        if self.clocks.apart > 1:
            said.append(f"{self.clocks.apart} sets of ranks share no collective: their clocks stand each for itself.")
        return tuple(said)


def arrivals_of(run: Trace) -> Arrivals:
    """The arrivals at every collective of the run; the same object each time."""
    return run.remember("arrivals", (), lambda: _arrivals(collectives_of(run)))


def _arrivals(found: Collectives) -> Arrivals:
    pairs = matched(found)
    clocks = clocks_of(pairs.frame, len(found.members))
    met = overlapping(pairs.frame, clocks)
    apart = met["instance"].null_count() - pairs.frame["instance"].null_count()
    if apart:
        pairs = replace(pairs, frame=met, unmatched=pairs.unmatched + apart)
        clocks = clocks_of(met, len(found.members))
    offsets = pl.Series(np.nan_to_num(clocks.offset), dtype=pl.Float64)
    one = pl.col("instance").is_not_null()
    own = pl.lit(offsets).gather(pl.col("member")) if len(offsets) else pl.lit(0.0)
    last, second = pl.col("arrival_ns").max(), pl.col("arrival_ns").top_k(2).min()
    frame = pairs.frame.with_columns(arrival_ns=pl.when(one).then(pl.col("start_ns") - own)).with_columns(
        behind=pl.when(one).then(last.over("instance") - pl.col("arrival_ns")),
        lead_ns=pl.when(one).then((last - second).over("instance")),
        parties=pl.when(one).then(pl.len().over("instance")),
        transfer_ns=pl.when(one).then(pl.col("dur_ns").min().over("instance")),
    ).with_columns(
        wait_ns=pl.when(one).then(pl.min_horizontal("behind", "dur_ns")).round().cast(pl.Int64),
        last=(pl.col("behind") == 0) & (pl.col("lead_ns") > 0),
    ).with_columns(caused_ns=pl.when("last").then(pl.col("wait_ns").sum().over("instance"))).drop("behind")
    return Arrivals(frame, found.members, clocks, pairs, apart)
