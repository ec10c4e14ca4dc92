"""How far apart ranks begin a cycle, and what of their waits that explains.

A rank that begins its cycle late comes late to the first collective of it, however fast it is within. Beginnings are
recorded on each rank's own clock and brought to the common one, which the ends of collectives give.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from ...loaders.trace import Trace
from ..communication.arrivals import Arrivals
from ..contract.options import Options
from ..core import units
from ..cycles.account import spoken_of

LEAST_SHARE = 0.01
"""Share of a cycle that ranks must begin apart to be mentioned."""


class Beginnings(Struct, frozen=True):
    """``behind`` has a row per rank and cycle: ``rank member cycle start_ns dur_ns`` on its own clock, ``begin_ns`` on
    the common one, known to ``doubt``, and ``behind_ns``, how long after the first rank it begins. Empty where that is
    not known.
    """

    behind: pl.DataFrame

    @property
    def of_ranks(self) -> dict[int | None, float]:
        """How long after the first rank each begins a cycle, median over the cycles, ns."""
        return dict(self.behind.group_by("rank").agg(pl.col("behind_ns").median()).sort("rank").rows())

    @property
    def spread_ns(self) -> float | None:
        """How long after the first rank the last one begins a cycle, median over the cycles."""
        most = self.behind.group_by("cycle").agg(pl.col("behind_ns").max())["behind_ns"].median()
        return float(most) if isinstance(most, int | float) else None

    def facts(self) -> dict[str, Any] | None:
        """Who begins first and last, and how far apart; None where that is not known."""
        by_rank = sorted((behind, rank) for rank, behind in self.of_ranks.items())
        if not by_rank:
            return None
        return {"spread_ns": self.spread_ns, "first_rank": by_rank[0][1], "last_rank": by_rank[-1][1],
                "cycles": self.behind["cycle"].n_unique()}

    @property
    def sentence(self) -> str | None:
        """That ranks begin cycles apart; None where they begin together, as far as clocks are known."""
        told, least = self.facts(), self.behind.select(
            pl.max_horizontal(pl.col("doubt").max(), pl.col("dur_ns").median() * LEAST_SHARE)).item()
        if told is None or told["spread_ns"] <= (least or 0.0):
            return None
        per = "the cycle" if told["cycles"] == 1 else "a cycle"
        typically = "" if told["cycles"] == 1 else " (median)"
        return (f"Ranks begin {per} up to {units.duration(told['spread_ns'])} apart{typically}: rank "
                f"{told['first_rank']} first, rank {told['last_rank']} last.")


def beginnings_of(run: Trace, arrivals: Arrivals, options: Options) -> Beginnings:
    """When each rank begins each of the cycles that several ranks recorded."""
    cycles = spoken_of(run, options)
    rows = cycles.frame.select("rank", "cycle", "start_ns", "dur_ns").drop_nulls()
    clocks = arrivals.clocks
    known = [
        (one.rank, float(offset), float(np.nan_to_num(doubt)), number)
        for number, (one, offset, doubt, together) in enumerate(
            zip(arrivals.members, clocks.offset, clocks.residual, clocks.sets, strict=True))
        if one.rank is not None and together == 0
    ]
    schema = {"rank": pl.Int64, "offset": pl.Float64, "doubt": pl.Float64, "member": pl.Int64}
    clock = pl.DataFrame(known, schema=schema, orient="row").unique("rank", keep="first", maintain_order=True)
    rows = rows.cast({"rank": pl.Int64}).join(clock, on="rank")
    rows = rows.filter(pl.len().over("cycle") > 1, pl.len().over("rank", "cycle") == 1)
    begun = rows.with_columns(begin_ns=pl.col("start_ns") - pl.col("offset")).with_columns(
        behind_ns=pl.col("begin_ns") - pl.col("begin_ns").min().over("cycle"))
    return Beginnings(begun.clear() if cycles.guessed else begun)


def waits_for_beginning(arrivals: Arrivals, begun: Beginnings) -> dict[int, int]:
    """By member: what the others waited at first collectives of cycles because it began these after them, ns."""
    if begun.behind.is_empty():
        return {}
    starts = begun.behind.select("member", "cycle", "begin_ns", cycle_ns="start_ns").sort("cycle_ns")
    met = arrivals.frame.drop_nulls("instance").select("instance", "member", "start_ns", "wait_ns", "last")
    inside = met.sort("start_ns").join_asof(
        starts, left_on="start_ns", right_on="cycle_ns", by="member", check_sortedness=False).drop_nulls("cycle")
    first = inside.unique(["member", "cycle"], keep="first", maintain_order=True)
    late = first.filter("last").select("instance", "cycle", "begin_ns", late="member")
    both = inside.join(late, on=["instance", "cycle"], suffix="_late").filter(pl.col("member") != pl.col("late"))
    earlier = (pl.col("begin_ns_late") - pl.col("begin_ns")).clip(lower_bound=0)
    sums = both.group_by("late").agg(pl.min_horizontal("wait_ns", earlier).sum().round().cast(pl.Int64))
    return dict(sums.rows())
