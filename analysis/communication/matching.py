"""What belongs together of several ranks: the activities of one collective, and the two ends of one message.

Activities of one collective are those of equal group, kind and (where all must have the same) size, and equal number:
their sequence number, where recorded; else their place in a recorded step, where members have equally many of the kind
in it; else their place, where they have equally many at all. Where that is lacking too, a member is shifted to where it
agrees with the longest. Sends and receives never match in this way: their order says nothing.

A message is a send of one rank and the receive of another, paired by group, source, destination and order.

The n-th send on the source meets the n-th receive on the destination, counted from the begin where both recorded
equally many, else from the end backwards; by their sequence numbers where both ends carry them, and then for certain:
only pairs by order must overlap on the common clock. What names no source and destination is never paired: the order
of anonymous sends and receives is no evidence, and a clock taken from wrong pairs is off by as much as they are.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import polars as pl
from msgspec import Struct

from ..core.intervals import Ints
from .collectives import MESSAGE, ONE_SIZE, PAIRED, RECEIVE, SEND, SEND_RECEIVE, Collectives

_KEY = ("group", "group_ranks", "src_rank", "dst_rank")


class Messages(Struct, frozen=True):
    """``frame`` has a row per message, in order of number: ``number``, the rows of its ``send`` and ``recv`` in
    ``Collectives.frame``, the members ``src`` and ``dst``, and whether sequence numbers make it ``certain``.
    ``labelled``: sends and receives with a source and a target; ``unlabelled``: those without."""

    frame: pl.DataFrame
    labelled: int = 0
    unlabelled: int = 0


def messages_of(collectives: Collectives) -> Messages:
    """The messages between the members of a run."""
    ends = collectives.frame.with_row_index("row").filter(pl.col("kind").is_in([SEND, RECEIVE, SEND_RECEIVE])).select(
        pl.col("row").cast(pl.Int64), "member", "start_ns", "kind", "seq", *_KEY)
    labelled = ends.drop_nulls(["src_rank", "dst_rank"]).filter(pl.col("src_rank") != pl.col("dst_rank"))
    ranks = [one.rank for one in collectives.members]
    own = pl.Series([_place(members, ranks[member]) for members, member in labelled.select(
        "group_ranks", "member").rows()], dtype=pl.Int64)
    named = pl.when(pl.col("kind") == SEND).then(True).when(pl.col("kind") == RECEIVE).then(False)
    labelled = labelled.with_columns(
        sends=pl.when(own == pl.col("src_rank")).then(True).when(own == pl.col("dst_rank")).then(False).otherwise(
            named)).drop_nulls("sends")
    unlabelled = ends.height - labelled.height
    several = len(collectives.members) > 1
    pairs = [_ends_of(one) for _, one in labelled.group_by(_KEY, maintain_order=True)] if several else []
    rows = np.concatenate([np.zeros((0, 3), dtype=np.int64), *pairs])
    member = collectives.frame["member"].to_numpy()
    frame = pl.DataFrame({
        "number": np.arange(len(rows)), "send": rows[:, 0], "recv": rows[:, 1],
        "src": member[rows[:, 0]], "dst": member[rows[:, 1]], "certain": rows[:, 2] > 0,
    })
    return Messages(frame, labelled.height, unlabelled)


def _place(members: str | None, rank: int | None) -> int | None:
    """The place of a rank in its group; None where the group is not recorded whole."""
    if members is None or rank is None:
        return None
    parts = members.split(",")
    return parts.index(str(rank)) if str(rank) in parts else None


def _ends_of(ends: pl.DataFrame) -> Ints:
    """Rows of the send and the receive of each message of one group, source and destination, and 1 if by number."""
    sends, receives = (
        ends.filter("sends" if way else ~pl.col("sends")).sort("start_ns", "row") for way in (True, False))
    nothing = np.zeros((0, 3), dtype=np.int64)
    if sends["member"].n_unique() != 1 or receives["member"].n_unique() != 1 or (
        sends["member"][0] == receives["member"][0]
    ):
        return nothing
    if all(not one["seq"].null_count() and one["seq"].is_unique().all() for one in (sends, receives)):
        both = sends.select("seq", send="row").join(receives.select("seq", recv="row"), on="seq", maintain_order="left")
        return both.select("send", "recv", pl.lit(1, pl.Int64)).to_numpy()
    count = min(sends.height, receives.height)
    if not count:
        return nothing
    rows = [one["row"].to_numpy()[-count:] for one in (sends, receives)]
    return np.stack([*rows, np.zeros(count, dtype=np.int64)], axis=1)


def with_messages(frame: pl.DataFrame, messages: Messages) -> pl.DataFrame:
    """``Collectives.frame`` with column ``message``, the number of the message that a row is an end of (null for
    others); such rows have the kind ``MESSAGE``, ``pair``: 'source→destination' in ranks of the group, and ``sends``:
    whether it is the end that sends."""
    number, certain = np.full(frame.height, -1, dtype=np.int64), np.zeros(frame.height, dtype=bool)
    sends = np.zeros(frame.height, dtype=bool)
    sends[messages.frame["send"].to_numpy()] = True
    for end in ("send", "recv"):
        number[messages.frame[end].to_numpy()] = messages.frame["number"].to_numpy()
        certain[messages.frame[end].to_numpy()] = messages.frame["certain"].to_numpy()
    message = pl.Series("message", number)
    one = pl.col("message").is_not_null()
    return frame.with_columns(message.set(message < 0, None)).with_columns(
        kind=pl.when(one).then(pl.lit(MESSAGE)).otherwise("kind"),
        sends=pl.Series(sends), certain=pl.Series(certain),
        pair=pl.when(one).then(pl.format("{}→{}", "src_rank", "dst_rank")))


SEQ, STEP, ORDER = "seq", "step", "order"
"""How activities are known to be one collective: sequence numbers, recorded steps, equal numbers."""
_WAYS = {ORDER: "order within the group", SEQ: "process group and sequence number", STEP: "recorded step"}
_SHIFTS = 64  # Collectives by which a recording may begin later than another and still be matched by order.
_AS_EVEN = 3.0
_ALONE = -1


class MatchedCollectives(Struct, frozen=True):
    """The collectives with ``instance``: the same number on all members for one collective, null for unmatched ones;
    ``how`` they were matched, and of those by order ``period_ns``, by which they may be off: a step, or, without steps,
    the time in which kinds and sizes repeat. ``how``: all ways (None if nothing was matched); ``unmatched``: the number
    of activities without a counterpart."""

    frame: pl.DataFrame
    how: str | None
    unmatched: int


def matched(collectives: Collectives, recorded: bool = False, step_ns: float | None = None) -> MatchedCollectives:
    """The collectives of all members, matched; with a single member nothing is matched. ``recorded``: the recorded
    clocks are one, to within what they are off."""
    lanes = _lanes(collectives.frame)
    parts = []
    for _, one in lanes.group_by("lane", maintain_order=True):
        if not one["seq"].null_count():
            numbers, how, period = _by_number(one), SEQ, None
        elif one.filter(pl.col("step").is_not_null().any().over("member").not_()).is_empty():
            numbers, how, period = _by_step(one), STEP, None
        else:
            (numbers, period), how = _by_order(one, recorded), ORDER
            period = step_ns or period
        parts.append(one.with_columns(number=numbers, how=pl.lit(how), period_ns=pl.lit(period, pl.Float64)))
    frame = collectives.frame.with_row_index("row")
    if parts:
        every = pl.concat(parts)
        instance = pl.Series("instance", _agreeing(every))
        every = every.select("row", "how", "period_ns", instance=instance.set(instance < 0, None))
        frame = frame.join(every, on="row", how="left", maintain_order="left").drop("row")
    else:
        frame = frame.drop("row").with_columns(
            how=pl.lit(None, pl.String), period_ns=pl.lit(None, pl.Float64), instance=pl.lit(None, pl.Int64))
    alone = frame.filter(~pl.col("kind").is_in(PAIRED))
    left = int(alone["instance"].null_count()) if len(collectives.members) > 1 else 0
    ways = frame["how"].unique().drop_nulls().sort().to_list()
    return MatchedCollectives(frame, " and ".join(_WAYS[way] for way in ways) or None, left)


def _lanes(frame: pl.DataFrame) -> pl.DataFrame:
    """The activities of groups that several members recorded: ``row lane member kind end_ns seq step``. ``lane``
    numbers the groups; ``kind`` numbers the kinds and, where all members must have the same size, the sizes."""
    pairs = pl.col("kind").is_in(PAIRED)
    size = pl.when(pl.col("kind").is_in(ONE_SIZE)).then("bytes")
    shaped = pl.col("by").eq_missing(pl.lit("shape"))  # nothing recorded says what such a kernel belongs to
    rows = frame.with_row_index("row").filter(~pairs, ~shaped).with_columns(size=size)
    for name, keys in (("lane", ["group", "group_ranks"]), ("same", ["kind", "size"])):
        lanes = rows.select(keys).unique(maintain_order=True)
        if name == "same":
            lanes = lanes.sort(keys)
        lanes = lanes.select(*keys, pl.int_range(pl.len()).alias(name))
        rows = rows.join(lanes, on=keys, how="left", nulls_equal=True, maintain_order="left")
    several = rows.group_by("lane").agg(pl.col("member").n_unique()).filter(pl.col("member") > 1)["lane"]
    rows = rows.filter(pl.col("lane").is_in(several.implode()))
    return rows.select("row", "lane", "member", pl.col("same").alias("kind"), "end_ns", "seq", "step")


def _by_number(lane: pl.DataFrame) -> pl.Series:
    """Numbers that are equal for equal sequence numbers. Several activities of a member with the same sequence number
    are numbered by their order."""
    rows = lane.select("member", "seq", place=pl.int_range(pl.len()).over("member", "seq"))
    return _paired(_ranked(rows["seq"]), rows["place"])


def _by_step(lane: pl.DataFrame) -> pl.Series:
    """Numbers by kind, step and place in it, equal for members that recorded equally many of the kind in that step;
    outside of steps each has its own."""
    own = ["member", "step", "kind"]
    rows = lane.with_columns(count=pl.len().over(own), place=pl.int_range(pl.len()).over(own)).with_row_index("at")
    inside = pl.struct("step", "count", "place", "kind").rank("dense").cast(pl.Int64)
    alone = pl.len() + 1 + pl.col("at").cast(pl.Int64)
    return rows.select(pl.when(pl.col("step").is_null()).then(alone).otherwise(inside)).to_series()


def _by_order(lane: pl.DataFrame, recorded: bool) -> tuple[pl.Series, float | None]:
    """Numbers by kind and place in it, for members with equally many of each kind. Others are shifted to where they
    agree with the longest; where that is unknown they match only members with equally many. Also the time (ns) in which
    kinds and sizes repeat, None where they do not."""
    kind, members, ends = (lane[name].to_numpy() for name in ("kind", "member", "end_ns"))
    place = lane.select(pl.int_range(pl.len()).over("member", "kind")).to_series().to_numpy()
    bounds = np.flatnonzero(np.diff(members, prepend=-1, append=-1))
    parts = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    first, last = max(parts, key=lambda group: group[1] - group[0])
    model, model_ends, model_place = kind[first:last], ends[first:last], place[first:last]
    kinds, room = int(kind.max()) + 1, lane.height + 1
    number, alike = place.copy(), {np.bincount(model, minlength=kinds).tobytes(): 0}
    for at, (a, b) in enumerate(parts):
        counts = np.bincount(kind[a:b], minlength=kinds).tobytes()
        if alike.get(counts) == 0:
            continue
        shift = _shift(kind[a:b], ends[a:b], model, model_ends, recorded)
        if shift is None:
            number[a:b] += room * alike.setdefault(counts, len(parts) + len(alike))
            continue
        place_there = np.arange(b - a) + shift
        inside = (place_there >= 0) & (place_there < len(model))
        number[a:b] += room * (at + 1)
        number[a:b][inside] = model_place[place_there[inside]]
    repeats = next((size for size in range(1, min(_SHIFTS, len(model) // 2) + 1)
                    if (model[size:] == model[:-size]).all()), None)
    period = None if repeats is None else float(np.median(model_ends[repeats:] - model_ends[:-repeats]))
    return pl.Series(number * kinds + kind), period


def _shift(own: Ints, ends: Ints, model: Ints, model_ends: Ints, recorded: bool) -> int | None:
    """The index in ``model`` of a member's first collective; None where that is unknown. Of several where kinds and
    sizes agree, the one with most matches, then the one with the most even differences between ends, because clocks
    differ by a constant. Of those about as even the recorded clock decides; without one it is unknown."""
    fits: list[tuple[int, float, float, int]] = []
    for shift in range(-_SHIFTS, len(model) - len(own) + _SHIFTS + 1):
        first, last = max(0, -shift), min(len(own), len(model) - shift)
        if 2 * (last - first) < len(own) or not (own[first:last] == model[first + shift : last + shift]).all():
            continue
        apart = ends[first:last] - model_ends[first + shift : last + shift]
        middle = float(np.median(apart))
        fits.append((last - first, float(np.median(np.abs(apart - middle))), abs(middle), shift))
    if not fits:
        return None
    most = max(one[0] for one in fits)
    best = [one for one in fits if one[0] == most]
    even = min(one[1] for one in best)
    best = [one for one in best if one[1] <= _AS_EVEN * even]
    if len(best) > 1 and not recorded:
        return None
    return min(best, key=lambda one: one[2])[3]


def _agreeing(numbered_rows: pl.DataFrame) -> Ints:
    """A number for each collective that at least two members have with the same kind and size; else -1. Members that
    disagree with the majority about a collective get -1 there. ``numbered_rows`` has ``lane number kind``."""
    one = ("lane", "number")
    ranked = numbered_rows.group_by(*one, "kind").len().sort("len", "kind", descending=[True, False])
    usual = ranked.unique(one, keep="first", maintain_order=True).filter(pl.col("len") > 1)
    usual = usual.sort(one).with_row_index("instance")
    instance = numbered_rows.join(usual, on=[*one, "kind"], how="left", maintain_order="left")["instance"]
    agreed: Ints = instance.cast(pl.Int64).fill_null(_ALONE).to_numpy()
    return agreed


def _ranked(values: pl.Series) -> pl.Series:
    """The rank of each value among the distinct values, from 0."""
    return values.rank("dense").cast(pl.Int64) - 1


def _paired(first: pl.Series, second: pl.Series) -> pl.Series:
    """The rank, from 0, of each pair of non-negative numbers among the distinct pairs; faster than ranking structs."""
    most = cast(int | None, second.max()) or 0
    return _ranked(first * (most + 1) + second)
