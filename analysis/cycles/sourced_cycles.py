"""The result of a cycle source, and whether a repetition that nobody marked is used.

Recorded steps are facts, used whatever their lengths. Executions of a compiled program, host functions and kernels that
repeat are guesses: they are used where they do the same work each time and the device has no more work after them than
in them. What came before them and how long each takes never matters: a warm-up, a slow loader and a pause are what one
wants to see. A repetition that is not used is listed with the condition that failed and its two numbers.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace

from ...loaders.schema import is_work
from ...loaders.trace import Trace
from ..core import units
from ..core.batches import values_at
from ..core.intervals import Ints
from . import assignment

LIMITED = "limited"
"""Key in the facts of a run that is part of another: its table has all its cycles, even if that is none."""
WINDOWED = "windowed"
"""Key in the facts of a run limited to a time window, which may cut its first and last cycle."""
GUESSED, IGNORED = "guessed cycles", "ignored cycles"
"""Keys in the facts of a run that is part of another: whether the cycles in its table are a guess, and why they are not
used (None: they are)."""
SOURCES = ("execution", "pattern")  # Sources that are always a guess, also when the cycles are read back from a file.


class SourcedCycles(Struct, frozen=True):
    """Cycles and their source: ``frame`` in the schema of ``cycles``, and the ``anchor`` they are taken from.

    ``device_time``: bounds are device times, so that an activity belongs to the cycle it runs in, not to the one it was
    launched in. ``guessed`` cycles are not marked: something repeats that may be an iteration. ``captured``: all of
    them lie in a graph capture, in which nothing runs. ``notes`` are for the user. ``inside``: the number of each mark
    that lies inside another one and is no cycle, and that of the other one.
    """

    frame: pl.DataFrame
    source: str
    anchor: str | None
    device_time: bool = False
    guessed: bool = False
    captured: bool = False
    notes: tuple[str, ...] = ()
    inside: dict[int, int] = {}


LEAST_WHOLE = 4
"""Repetitions that must have been recorded whole."""
LEAST_COVER = 0.5
"""Share of the time from the first repetition to the end of the last one that repetitions must cover."""
SAME_WORK, LEAST_SAME = 0.1, 0.8
"""A repetition launches the same kernels if at most this share of the usual launches of its kind differs; this share
of the whole ones of each kind must."""
EVERY = 0.9
"""Every n-th repetition launches more where n is the same in this share of the distances between those that do."""


class GuessVerdict(Struct, frozen=True):
    """Whether a guess is used: ``ignored`` is the condition that failed, as the end of a sentence, or None.
    ``applies``: the device has no more work after the repetitions than in them; else another source may explain it."""

    ignored: str | None = None
    applies: bool = True


def guess_verdict(run: Trace, sourced: SourcedCycles, frame: pl.DataFrame) -> GuessVerdict:
    """Whether the repetitions are used; ``frame`` has the columns of ``detection``."""
    if IGNORED in run.info.facts:
        return GuessVerdict(run.info.facts[IGNORED])
    if sourced.captured:
        return GuessVerdict("they lie in a graph capture", False)
    launches = _launches(run, frame, sourced.device_time)
    inside, after = _device_time(launches, frame)
    busier, whole = after > inside, int(frame["complete"].sum())
    if whole < LEAST_WHOLE:
        were = "was" if whole == 1 else "were"
        return GuessVerdict(f"{whole} of {frame.height} {were} recorded whole, {LEAST_WHOLE} are needed", not busier)
    if sourced.source != "execution":
        why = _uncovered(frame) or _unlike(launches, frame)
        if why is not None:
            return GuessVerdict(why, not busier)
    if not busier:
        return GuessVerdict()
    first, rest = units.duration(inside), units.duration(after)
    return GuessVerdict(f"the device works {first} in them and {rest} after them", False)


def merged(run: Trace, sourced: SourcedCycles, frame: pl.DataFrame) -> SourcedCycles | None:
    """The same with n repetitions as one cycle, where every n-th launches more: it ends an iteration of several
    micro-batches. None where none does, or n varies."""
    if sourced.source == "execution" or frame["kind"].n_unique() > 1 or sourced.captured:
        return None
    counts = _launches(run, frame, sourced.device_time).group_by("segment").len()
    each = frame.select(segment=pl.col("row")).join(counts, on="segment", how="left")["len"].fill_null(0)
    pieces = []
    for (_,), own in frame.with_columns(launches=each).group_by("rank", maintain_order=True):
        ordered = own.sort("start_ns", "first_index", nulls_last=True)
        launched = ordered["launches"].to_numpy()
        usual = int(np.sort(launched)[(len(launched) - 1) // 3])  # every second one may launch more
        last = np.flatnonzero(launched > (1 + SAME_WORK) * usual)
        apart = np.diff(last)
        if len(apart) < LEAST_WHOLE - 1:
            return None
        every = int(np.bincount(apart).argmax())
        if every < 2 or (apart == every).mean() < EVERY:
            return None
        ends = last[np.append(last[0] == every - 1, apart == every)]
        pieces.append(_joined(ordered, ends, every))
    joined = pl.concat(pieces).select(sourced.frame.columns)
    name = f"{every} × {sourced.anchor}" if sourced.anchor else None
    return replace(sourced, frame=joined, anchor=name)


def _joined(ordered: pl.DataFrame, ends: Ints, every: int) -> pl.DataFrame:
    """One cycle from each ``every`` rows of one rank that end with the rows ``ends``: from the start of the first of
    them to the end of the last."""
    first, last = ordered[ends - every + 1], ordered[ends]
    timed = not ordered["start_ns"].null_count()
    span = (last["start_ns"] + last["dur_ns"] - first["start_ns"]) if timed else pl.Series([
        ordered["dur_ns"][int(end) - every + 1 : int(end) + 1].sum() for end in ends])
    return first.with_columns(
        cycle=pl.int_range(1, pl.len() + 1, dtype=pl.Int64), dur_ns=span, last_index=last["last_index"], complete=True)


def _launches(run: Trace, frame: pl.DataFrame, device_time: bool) -> pl.DataFrame:
    """The device activities from the first repetition of each rank on: ``name``, whether a ``kernel``, ``dur_ns``, the
    row of the ``segment`` from the start of a repetition to that of the next one (null: after the end of the last
    one), and whether it lies ``inside`` the repetition. Where cycles are runs of launches, segments are, too."""
    timed = not frame["start_ns"].null_count()
    alike = [] if not _rhythms(frame) else ["label"]
    if timed:
        at = pl.col("start_ns") if device_time else pl.coalesce("launch_ns", "assumed_ns")
        begin, end = pl.col("start_ns"), pl.col("start_ns") + pl.col("dur_ns")
    else:
        at, begin, end = pl.col("index"), pl.col("first_index"), pl.col("last_index") + 1
    rows = assignment.launched(run).filter(is_work()).select(
        "rank", at=at, name=pl.col("name").to_physical(), kernel=pl.col("kind").is_in(["kernel", "collective"]),
        dur_ns=pl.col("dur_ns").fill_null(0).clip(lower_bound=0),
    ).drop_nulls("at").collect(engine="streaming")
    bounds = frame.select("rank", "row", *alike, begin=begin, end=end).sort("rank", "begin")
    # the last of each rhythm, and of all, goes to its end
    following = pl.col("begin").shift(-1).over("rank")
    same = pl.col("label").shift(-1).over("rank").eq(pl.col("label")) if alike else pl.lit(True)
    bounds = bounds.with_columns(until=pl.when(same).then(following).otherwise(None).fill_null(pl.col("end")))
    at_row = assignment.row_at(rows["at"], rows["rank"], bounds.select("rank", "begin", "until"), ("begin", "until"))
    in_row = assignment.row_at(rows["at"], rows["rank"], bounds.select("rank", "begin", "end"), ("begin", "end"))
    first = bounds.group_by("rank").agg(pl.col("begin").min().alias("first"))
    rows = rows.with_columns(
        segment=values_at(bounds["row"].to_numpy(), at_row), inside=pl.Series(in_row >= 0))
    if first["rank"].null_count():
        return rows.filter(pl.col("at") >= first["first"].min())
    return rows.join(first, on="rank", how="left").filter(
        pl.col("at") >= pl.col("first").fill_null(first["first"].min()))


def _rhythms(frame: pl.DataFrame) -> bool:
    """Whether the cycles are of several rhythms, one after the other, which their labels name."""
    return bool(frame["source"].cast(pl.String).eq("pattern").any()) and frame["label"].n_unique() > 1


def _device_time(launches: pl.DataFrame, frame: pl.DataFrame) -> tuple[int, int]:
    """The summed device time of activities in the repetitions, and after any of them, ns."""
    spent = launches["dur_ns"].cast(pl.Float64)  # the sum may overflow an integer
    return int(spent.filter(launches["inside"]).sum()), int(spent.filter(~launches["inside"]).sum())


def _uncovered(frame: pl.DataFrame) -> str | None:
    if frame["start_ns"].null_count():
        return None
    begin, end = pl.col("start_ns"), pl.col("start_ns") + pl.col("dur_ns")
    covered, extent = frame.group_by("rank").agg(
        covered=pl.col("dur_ns").sum(), extent=end.max() - begin.min()).select("covered", "extent").sum().row(0)
    if covered >= LEAST_COVER * extent:
        return None
    return f"they cover {units.duration(covered)} of the {units.duration(extent)} from the first to the last one"


def usual_counts(counts: pl.DataFrame, among: list[str], of: pl.DataFrame) -> pl.DataFrame:
    """``among name usual``: how often a kernel is usually launched, the upper of two medians over all segments.
    ``counts``: ``among segment name len``; ``of``: ``among`` and the number of ``segments``, those without any
    launch of the kernel included."""
    each = counts.group_by(*among, "name").agg(pl.col("len").sort(), seen=pl.len())
    joined = each.join(of, on=among, nulls_equal=True) if among else each.join(of, how="cross")
    place = pl.col("segments") // 2 - (pl.col("segments").cast(pl.Int64) - pl.col("seen"))
    return joined.with_columns(place=place).select(*among, "name", usual=pl.when(pl.col("place") >= 0).then(
        pl.col("len").list.get(pl.max_horizontal("place", 0))).otherwise(0).cast(pl.Int64))


def _unlike(launches: pl.DataFrame, frame: pl.DataFrame) -> str | None:
    """How many repetitions of a kind launch the same kernels, if these are too few."""
    from .completeness import like

    of = ["rank", "like"]
    rows = frame.select("rank", "complete", segment="row", like=pl.col(like(frame)).cast(pl.String).fill_null("step"))
    whole = rows.filter("complete")
    counts = launches.filter("kernel").group_by("segment", "name").len().join(whole, on="segment").with_columns(
        pl.col("len").cast(pl.Int64))
    usual = usual_counts(counts, of, whole.group_by(of).agg(segments=pl.len()))
    total = usual.group_by(of).agg(total=pl.col("usual").sum())
    own = counts.join(usual, on=[*of, "name"], nulls_equal=True).group_by("segment").agg(
        differs=((pl.col("len") - pl.col("usual")).abs() - pl.col("usual")).sum())
    same = whole.join(own, on="segment", how="left").join(total, on=of, how="left", nulls_equal=True).with_columns(
        pl.col("differs", "total").fill_null(0)).with_columns(
        same=pl.col("differs") + pl.col("total") <= SAME_WORK * pl.col("total"))
    kinds = same.group_by("like").agg(pl.col("same").sum(), of=pl.len()).filter(
        pl.col("same") < LEAST_SAME * pl.col("of")).sort(pl.col("same") / pl.col("of"), "like")
    if kinds.is_empty():
        return None
    kind, alike, count = kinds.row(0)
    phase = f" {kind}s" if kind in ("decode", "prefill") else ""
    which = f"of those with {kind}, " if same["like"].n_unique() > 1 and not phase else ""
    return f"{which}{alike} of {count}{phase} launch{'es' if alike == 1 else ''} the same kernels"
