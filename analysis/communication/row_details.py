"""Details of a row of the collectives view: arrivals at the collective with the longest waits, and what led to it."""

from __future__ import annotations

from typing import Any

import polars as pl

from ...loaders.trace import Trace
from ..contract.options import Options
from ..contract.sections import MOST, Section
from ..core import units
from .arrivals import Arrivals, arrivals_of
from .by_kind import by_kind
from .reasons import before, beginning, host_recorded

_DID = ("in all", "computing", "copying", "host waits for input", "until the host launched it")
"""The fields of ``Stretches`` in words."""
_CELLS = 24  # Width of the timeline of one collective.


def sections(row: dict[str, Any], runs: tuple[Trace, ...], options: Options) -> list[Section]:
    """Per run: the arrivals at the row's collective with the longest waits, what its last rank did before, and how
    often each rank came last at the row's collectives."""
    result = []
    for side, run in zip("AB", runs, strict=False):
        arrivals = arrivals_of(run)
        behind = _behind(run, arrivals, row, len(runs) > 1)
        mark = f" of {side}" if len(runs) > 1 else ""
        matched = behind.drop_nulls("instance")
        if matched.is_empty():
            continue
        waits = matched.group_by("instance").agg(pl.col("wait_ns").sum())
        worst = waits.sort("wait_ns", "instance", descending=[True, False])["instance"][0]
        result.append(_timeline(matched.filter(pl.col("instance") == worst), arrivals, mark))
        result += _before(run, arrivals, worst, mark)
        result.append(_lasts(matched, arrivals, mark))
    return result


def longest_wait(run: Trace, mark: str = "") -> list[Section]:
    """The arrivals at the collective of the run with the longest waits; [] where none is matched."""
    arrivals = arrivals_of(run)
    if arrivals.met.is_empty():
        return []
    waits = arrivals.met.group_by("instance").agg(pl.col("wait_ns").sum())
    worst = waits.sort("wait_ns", "instance", descending=[True, False])["instance"][0]
    return [_timeline(arrivals.met.filter(pl.col("instance") == worst), arrivals, mark)]


def _behind(run: Trace, arrivals: Arrivals, row: dict[str, Any], paired: bool) -> pl.DataFrame:
    """The activities of a row, selected by the row's keys."""
    frame = arrivals.frame.filter(pl.col("kind") == row["kind"])
    for key in ("group", "dtype") if paired else ("group", "dtype", "name"):
        frame = frame.filter(pl.col(key).eq_missing(pl.lit(row[key], pl.String)))
    rows = by_kind(run, arrivals, by_name=not paired).filter(pl.col("kind") == row["kind"])
    sizes = rows["bytes"].n_unique()
    exact = frame.filter(pl.col("bytes") == row["bytes"]) if row["bytes"] is not None and sizes > 1 else frame
    return frame if exact.is_empty() else exact


def _timeline(one: pl.DataFrame, arrivals: Arrivals, mark: str) -> Section:
    """Each rank's arrival and wait, earliest first; dots before its arrival, a bar while its kernel ran."""
    one = one.sort("arrival_ns", "member")
    first = float(one["arrival_ns"][0])
    span = max(float((one["arrival_ns"] + one["dur_ns"]).to_numpy().max()) - first, 1.0)
    rows = []
    shown = one if one.height <= MOST else pl.concat([one.head(2), one.tail(MOST - 2)])
    for member, at, dur, wait in shown.select("member", "arrival_ns", "dur_ns", "wait_ns").rows():
        begin = min(int((at - first) / span * _CELLS), _CELLS - 1)
        length = max(1, round(dur / span * _CELLS))
        bar = "·" * begin + "█" * min(length, _CELLS - begin)
        rows.append((arrivals.members[member].text, bar.ljust(_CELLS, "·"), units.duration(at - first, signed=True),
                     units.duration(wait)))
    left = f", {one.height - shown.height} ranks between not shown" if one.height > shown.height else ""
    return Section(f"The one with the longest waits{mark}{left}", tuple(rows), ("rank", "arrivals", "came", "waited"))


def _before(run: Trace, arrivals: Arrivals, instance: int, mark: str) -> list[Section]:
    """What the last rank and the others did between their previous collective and this one; ``_first`` without one."""
    stretch = before(run, arrivals, instance)
    if stretch is None:
        return _first(run, arrivals, instance, mark)
    member = arrivals.members[stretch.member]
    labels = _DID if host_recorded(run, member.rank) else _DID[:3]  # the last two need a recorded host
    rows = tuple(
        (what, units.duration(own), units.duration(usual))
        for what, own, usual in zip(labels, stretch.own, stretch.usual, strict=False) if own or usual
    )
    who = member.text
    return [Section(f"Between the collective before and this one{mark}", rows, ("", who, "others, median"))]


def _first(run: Trace, arrivals: Arrivals, instance: int, mark: str) -> list[Section]:
    """A note that this is the last rank's first recorded collective, and how long before it the recordings begin."""
    start = beginning(run, arrivals, instance)
    if start is None:
        return []
    who = arrivals.members[start.member].text
    title = f"No collective of {who} is recorded before this one{mark}"
    if start.own is None or start.usual is None:
        return [Section(title)]
    times = units.duration(start.own), units.duration(start.usual)
    return [Section(title, (("recorded from", *(f"{time} before" for time in times)),), ("", who, "others, median"))]


def _lasts(matched: pl.DataFrame, arrivals: Arrivals, mark: str) -> Section:
    """Which ranks came last, how often, and how long the others waited for them."""
    came = matched.filter(pl.col("last").fill_null(False)).group_by("member").agg(
        pl.len(), pl.col("lead_ns").median(), pl.col("caused_ns").sum()
    ).sort("len", "member", descending=[True, False])
    rows = [
        (arrivals.members[member].text, units.count(times), units.duration(lead), units.duration(caused))
        for member, times, lead, caused in came.head(MOST).rows()
    ]
    capped = f", {MOST} of {came.height} ranks" if came.height > MOST else ""
    return Section(f"Came last{mark}{capped}", tuple(rows), ("rank", "times", "behind the second last", "waits caused"))
