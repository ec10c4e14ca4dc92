"""Each collective call on each rank: how long it took there, which rank came last, and whom the others waited for.

A collective ends on all ranks at once, so in a column of the matrix the shortest time is the transfer and the rest of
the others' time is waiting for the rank that has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from ..core import units
from .arrivals import Arrivals

MOST_CALLS, MOST_RANKS = 16, 32
"""Calls with the longest waits that the fact holds, and ranks with most time in collectives."""


def each_call(arrivals: Arrivals, steps: Mapping[int | None, float]) -> dict[str, Any] | None:
    """The calls with the longest waits, in order of time: ``count`` and ``ranks`` in all; ``calls`` = [{``kind``,
    ``wait_ns`` of all ranks together, ``shortest_ns``, ``last``}]; ``rows`` = [{``name``, ``dur_ns`` of each call (null
    where it took no part), ``comm_ns`` and ``wait_ns`` of all its matched calls, ``step_ns``, its length in
    ``steps``}], by rank. None unless calls of several ranks are matched."""
    met = arrivals.met
    if met["member"].n_unique() < 2:
        return None
    each = met.group_by("instance").agg(
        pl.col("kind").first(), pl.col("start_ns").min(), pl.col("wait_ns").sum(), pl.col("dur_ns").min(),
        pl.col("member").filter(pl.col("last").fill_null(False)).first().alias("last"))
    chosen = each.sort("wait_ns", "instance", descending=[True, False]).head(MOST_CALLS).sort("start_ns", "instance")
    sums = met.group_by("member").agg(pl.col("dur_ns", "wait_ns").sum(), pl.len()).sort(
        "dur_ns", "member", descending=[True, False])
    cells = {(instance, member): dur for instance, member, dur in met.filter(
        pl.col("instance").is_in(chosen["instance"].implode())).select("instance", "member", "dur_ns").rows()}
    rows = []
    for member, took, waited, _ in sorted(sums.head(MOST_RANKS).rows()):
        one = arrivals.members[member]
        rows.append({
            "name": one.text, "dur_ns": [cells.get((instance, member)) for instance in chosen["instance"]],
            "comm_ns": took, "wait_ns": waited, "step_ns": steps.get(one.rank),
        })
    calls = [{"kind": kind, "wait_ns": wait, "shortest_ns": shortest,
              "last": None if last is None else arrivals.members[last].text}
             for kind, wait, shortest, last in chosen.select("kind", "wait_ns", "dur_ns", "last").rows()]
    return {"count": each.height, "ranks": sums.height, "calls": calls, "rows": rows}


def last_rank(arrivals: Arrivals) -> str | None:
    """Whom the others wait for most, at which kind and how often; None where no wait is known."""
    met = arrivals.met.filter(pl.col("last").fill_null(False), pl.col("caused_ns") > 0)
    if met.is_empty():
        return None
    sums = met.group_by("kind", "member").agg(
        pl.len(), pl.col("caused_ns").sum(), pl.col("lead_ns").median()).sort(
        "caused_ns", "kind", "member", descending=[True, False, False])
    kind, member, times, caused, lead = sums.row(0)
    of = arrivals.met.filter(pl.col("kind") == kind)["instance"].n_unique()
    others = "the other waits" if len(arrivals.members) == 2 else "the others wait"
    behind = "" if lead is None else f", {units.duration(lead)} behind the second last"
    name = arrivals.members[member].text
    return (f"{name[0].upper()}{name[1:]} comes last at {units.count(times)} of "
            f"{units.counted(of, f'{kind} call', f'{kind} calls')}{behind}: {others} {units.duration(caused)} for it.")
