"""Which activities on several members are one collective.

Where process group and sequence number are recorded they say so. Else collectives of a group come in the same order
on all its members, and a member whose recording began later or ended sooner is placed where kinds and sizes agree. What
disagrees in kind, or in size where all must have the same, is matched with nothing and counted. Sends and receives
between two members of a larger group are not matched: their order in the group tells nothing.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct

from . import kinds
from .collectives import Collectives

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
BY_NUMBER, BY_ORDER = "process group and sequence number", "order within the group"
_SHIFTS = 64
"""Collectives by which a recording may begin later than another and still be placed."""
_ALONE = -1


class MatchedCollectives(Struct, frozen=True):
    """The collectives with ``instance``: the same number on all members for one collective, null for unmatched ones.

    ``how`` says what they were matched by, None where nothing was; ``unmatched`` counts activities without a partner.
    """

    frame: pl.DataFrame
    how: str | None
    unmatched: int


def matched(found: Collectives) -> MatchedCollectives:
    """The collectives of all members, matched. Nothing is where there is only one member."""
    frame = found.frame.with_row_index("row").with_columns(pl.lit(_ALONE, pl.Int64).alias("instance"))
    place = np.full(frame.height, _ALONE, dtype=np.int64)
    ways: set[str] = set()
    last = 0
    pairs = pl.col("kind").is_in(kinds.PAIRED) & (pl.col("ranks").fill_null(3) > 2)
    lanes = frame.filter(~pairs).with_columns(size=pl.when(pl.col("kind").is_in(kinds.ONE_SIZE)).then("bytes"))
    for _, lane in lanes.group_by("group", "group_ranks", maintain_order=True):
        if lane["member"].n_unique() < 2:
            continue
        numbered = lane["seq"].null_count() == 0
        numbers = _by_number(lane) if numbered else _by_order(lane)
        agreed = _agreeing(lane, numbers)
        ways.add(BY_NUMBER if numbered else BY_ORDER)
        place[lane["row"].to_numpy()] = np.where(agreed >= 0, agreed + last, _ALONE)
        last = max(last, int(place.max()) + 1)
    instance = pl.Series("instance", place)
    frame = frame.with_columns(instance.set(instance < 0, None)).drop("row")
    left = int(frame["instance"].null_count()) if len(found.members) > 1 else 0
    return MatchedCollectives(frame, " and ".join(sorted(ways)) or None, left)


def _by_number(lane: pl.DataFrame) -> Ints:
    """Numbers equal where the sequence number is; several activities of one number are told apart by their order."""
    again = lane.with_columns(again=pl.int_range(pl.len()).over("member", "seq"))
    return _dense(again.select("seq", "again"))


def _by_order(lane: pl.DataFrame) -> Ints:
    """Numbers by place in the order of each member, the members shifted to where they agree."""
    kind = _dense(lane.select("kind", "size"))
    members = lane["member"].to_numpy()
    bounds = np.flatnonzero(np.diff(members, prepend=-1, append=-1))
    parts = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
    longest = max(parts, key=lambda part: part[1] - part[0])
    model, ends = kind[longest[0] : longest[1]], lane["end_ns"].to_numpy()
    model_ends = ends[longest[0] : longest[1]]
    numbers = np.empty(lane.height, dtype=np.int64)
    shifts = [_shift(kind[a:b], ends[a:b], model, model_ends) for a, b in parts]
    if None in shifts:
        per_kind = lane.with_columns(place=pl.int_range(pl.len()).over("member", "kind"))
        return _dense(per_kind.select("kind", "place"))
    for (a, b), shift in zip(parts, shifts, strict=True):
        numbers[a:b] = np.arange(b - a) + (shift or 0)
    return numbers


def _shift(own: Ints, ends: Ints, model: Ints, model_ends: Ints) -> int | None:
    """Where in the model a member's first collective is; None where kinds and sizes agree nowhere.

    Of several places the one at which the ends differ most evenly is taken, for clocks differ by the same each time.
    """
    if len(own) == len(model) and (own == model).all():
        return 0
    best: tuple[float, int] | None = None
    for shift in range(-_SHIFTS, len(model) - len(own) + _SHIFTS + 1):
        first, last = max(0, -shift), min(len(own), len(model) - shift)
        if 2 * (last - first) < len(own) or not (own[first:last] == model[first + shift : last + shift]).all():
            continue
        apart = ends[first:last] - model_ends[first + shift : last + shift]
        uneven = float(np.median(np.abs(apart - np.median(apart))))
        if best is None or uneven < best[0]:
            best = uneven, shift
    return None if best is None else best[1]


def _agreeing(lane: pl.DataFrame, numbers: Ints) -> Ints:
    """The numbers where at least two members have them and agree with most on kind and size, else -1."""
    kind = _dense(lane.select("kind", "size"))
    frame = pl.DataFrame({"number": numbers, "kind": kind, "member": lane["member"]})
    ranked = frame.group_by("number", "kind").len().sort("len", "kind", descending=[True, False])
    usual = ranked.group_by("number", maintain_order=True).first().rename({"kind": "usual"})
    told = frame.join(usual.select("number", "usual", "len"), on="number", how="left", maintain_order="left")
    good = (told["kind"] == told["usual"]) & (told["len"] > 1)
    return np.where(good.to_numpy(), numbers, _ALONE)


def _dense(keys: pl.DataFrame) -> Ints:
    """A number from 0 for each distinct row."""
    ranked: Ints = keys.select(pl.struct(pl.all()).rank("dense")).to_series().to_numpy().astype(np.int64) - 1
    return ranked
