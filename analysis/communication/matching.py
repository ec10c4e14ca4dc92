"""Which activities on several members are one collective.

Where process group and sequence number are recorded they say so. Else collectives of a group come in the same order
on all its members, and a member whose recording began later or ended sooner is placed where kinds and sizes agree. What
disagrees in kind, or in size where all must have the same, is matched with nothing and counted. Sends and receives
between two members of a larger group are not matched: their order in the group tells nothing.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import polars as pl
from msgspec import Struct

from . import kinds
from .collectives import Collectives

Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
BY_NUMBER, BY_ORDER = "process group and sequence number", "order within the group"
_SHIFTS = 64  # Collectives by which a recording may begin later than another and still be placed.
_ALONE = -1


class MatchedCollectives(Struct, frozen=True):
    """The collectives with ``instance``: the same number on all members for one collective, null for unmatched ones.
    ``how`` says what they were matched by, None where nothing was; ``unmatched`` counts activities without a
    partner."""

    frame: pl.DataFrame
    how: str | None
    unmatched: int


def matched(found: Collectives) -> MatchedCollectives:
    """The collectives of all members, matched. Nothing is where there is only one member."""
    place = np.full(found.frame.height, _ALONE, dtype=np.int64)
    lanes = _lanes(found.frame)
    unnumbered = pl.col("seq").is_null().any().over("lane")
    numbered, ordered = lanes.filter(~unnumbered), lanes.filter(unnumbered)
    parts = [_by_number(numbered)] if numbered.height else []
    for _, one in ordered.group_by("lane", maintain_order=True):
        parts.append(one.with_columns(number=pl.Series(_by_order(one))))
    if parts:
        told = pl.concat(parts)
        place[told["row"].to_numpy()] = _agreeing(told)
    instance = pl.Series("instance", place)
    frame = found.frame.with_columns(instance.set(instance < 0, None))
    left = int(frame["instance"].null_count()) if len(found.members) > 1 else 0
    ways = [way for way, some in ((BY_ORDER, ordered), (BY_NUMBER, numbered)) if some.height]
    return MatchedCollectives(frame, " and ".join(ways) or None, left)


def _lanes(frame: pl.DataFrame) -> pl.DataFrame:
    """The activities of groups that several members recorded: ``row lane member kind end_ns seq``. ``lane`` is a number
    for each group, ``kind`` one for each kind and, where all must have the same, size."""
    pairs = pl.col("kind").is_in(kinds.PAIRED) & (pl.col("ranks").fill_null(3) > 2)
    size = pl.when(pl.col("kind").is_in(kinds.ONE_SIZE)).then("bytes")
    rows = frame.with_row_index("row").filter(~pairs).with_columns(size=size)
    for name, keys in (("lane", ["group", "group_ranks"]), ("same", ["kind", "size"])):
        told = rows.select(keys).unique(maintain_order=True)
        if name == "same":
            told = told.sort(keys)
        told = told.select(*keys, pl.int_range(pl.len()).alias(name))
        rows = rows.join(told, on=keys, how="left", nulls_equal=True, maintain_order="left")
    several = rows.group_by("lane").agg(pl.col("member").n_unique()).filter(pl.col("member") > 1)["lane"]
    rows = rows.filter(pl.col("lane").is_in(several.implode()))
    return rows.select("row", "lane", "member", pl.col("same").alias("kind"), "end_ns", "seq")


def _by_number(lanes: pl.DataFrame) -> pl.DataFrame:
    """The rows with ``number``, equal in a lane where the sequence number is. Several activities of one number are told
    apart by their order."""
    number = _paired(lanes["lane"], _ranked(lanes["seq"]))
    own = pl.DataFrame({"own": _paired(number, lanes["member"])})
    if own["own"].n_unique() < lanes.height:
        number = _paired(number, own.select(pl.int_range(pl.len()).over("own")).to_series())
    return lanes.with_columns(number=number)


def _by_order(lane: pl.DataFrame) -> Ints:
    """Numbers by place in the order of each member, the members shifted to where they agree."""
    kind = lane["kind"].to_numpy()
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
        number: Ints = _paired(per_kind["kind"], per_kind["place"]).to_numpy()
        return number
    for (a, b), shift in zip(parts, shifts, strict=True):
        numbers[a:b] = np.arange(b - a) + (shift or 0)
    return numbers


def _shift(own: Ints, ends: Ints, model: Ints, model_ends: Ints) -> int | None:
    """Where in the model a member's first collective is; None where kinds and sizes agree nowhere. Of several places
    the one at which the ends differ most evenly is taken, for clocks differ by the same each time."""
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


def _agreeing(told: pl.DataFrame) -> Ints:
    """A number for each collective of a group that at least two members have, the same in kind and size; else -1. Who
    disagrees with most members about one has none there. ``told`` has ``lane number kind``."""
    one = ("lane", "number")
    ranked = told.group_by(*one, "kind").len().sort("len", "kind", descending=[True, False])
    usual = ranked.unique(one, keep="first", maintain_order=True).filter(pl.col("len") > 1)
    usual = usual.sort(one).with_row_index("instance")
    found = told.join(usual, on=[*one, "kind"], how="left", maintain_order="left")["instance"].cast(pl.Int64)
    agreed: Ints = found.fill_null(_ALONE).to_numpy()
    return agreed


def _ranked(values: pl.Series) -> pl.Series:
    """A number from 0 for each distinct value, in their order."""
    return values.rank("dense").cast(pl.Int64) - 1


def _paired(first: pl.Series, second: pl.Series) -> pl.Series:
    """A number from 0 for each distinct pair of numbers from 0, in their order; sooner than ranking pairs."""
    most = cast(int | None, second.max()) or 0
    return _ranked(first * (most + 1) + second)
