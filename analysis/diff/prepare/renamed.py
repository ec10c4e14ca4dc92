"""Functions that only changed their name between two versions are one function.

A name that only A has and one that only B has, on the same device and of the same kind, are a pair where the same
operator launches them, as often and at the same place in the cycle (``launched``); else where they are the same without
template arguments, parameter lists, address suffixes and tile sizes. Never where something else fits as well.
"""

from __future__ import annotations

import re

import polars as pl

from ...core.options import Options
from .launchers import by_launch
from .samples import Work, function_runs

_ADDRESS = re.compile(r"(_0x[0-9a-f]+|0x[0-9a-f]+|[._][0-9a-f]{8,}|_\d{3,})(?=_|$)", re.IGNORECASE)
_TILES = re.compile(r"\d+x\d+(x\d+)*")
_NUMBERS = re.compile(r"\d+")
_SPACE = re.compile(r"\s+|\bvoid\b")
_Row = tuple[str, str | None, str | None, int, int]


def plain(name: str) -> str:
    """The name without template arguments, parameters, addresses, tile sizes and numbers."""
    bare, depth = [], 0
    for char in name:
        if char in "<([{":
            depth += 1
        elif char in ">)]}":
            depth = max(0, depth - 1)
        elif depth == 0:
            bare.append(char)
    text = "".join(bare) or name
    text = _ADDRESS.sub("", text)
    return _SPACE.sub("", _NUMBERS.sub("", _TILES.sub("", text))).strip("_:. ").lower()


def renamed(a: Work, b: Work, moved: dict[str, str], options: Options) -> dict[tuple[str, str | None], str]:
    """(name in B, device) → name in A for the functions that are one; ``moved`` is B's devices under A's names."""
    keys = ["function", "device", "kind"]
    only_a, only_b = _alone(a.rows, b.rows), _alone(b.rows, a.rows)
    pairs = by_launch(a, b, only_a.select(keys), only_b.select(keys), moved, options)
    taken = {(was, device) for (_, device), was in pairs.items()}
    left_a = [row for row in only_a.rows() if (row[0], row[1]) not in taken]
    left_b = [row for row in only_b.rows() if (row[0], row[1]) not in pairs]
    return pairs | _by_name(left_a, left_b)


def _alone(mine: pl.DataFrame, theirs: pl.DataFrame) -> pl.DataFrame:
    """``function device kind instances cycles`` of the functions that only the first of both has.

    Which these are is found first: to count the cycles of all took 150 MB of a million rows.
    """
    same = ["function", "device"]
    here, there = (function_runs(rows).select(same).unique() for rows in (mine, theirs))
    alone = here.join(there, on=same, how="anti", nulls_equal=True)
    rows = mine.clear() if alone.is_empty() else mine.join(alone, on=same, how="semi", nulls_equal=True)
    counted = rows.group_by(*same, "kind", maintain_order=True).agg(
        pl.col("instances").sum(), pl.col("cycle").n_unique().alias("cycles")
    )
    return counted.with_columns(pl.col(*same, "kind").cast(pl.String))


def _by_name(only_a: list[_Row], only_b: list[_Row]) -> dict[tuple[str, str | None], str]:
    """Pairs by plain name. Rows are ``function device kind instances cycles``.

    Only clear cases: one candidate on each side, or the same number of them with launches in the same order of size.
    """
    groups: dict[tuple[str, str | None, str | None], tuple[list[tuple[float, str]], list[tuple[float, str]]]] = {}
    for place, side in enumerate((only_a, only_b)):
        for function, device, kind, instances, cycles in side:
            found = groups.setdefault((plain(function), device, kind), ([], []))
            found[place].append((instances / max(cycles, 1), function))
    pairs: dict[tuple[str, str | None], str] = {}
    for (_, device, _), (old, new) in groups.items():
        if len(old) == len(new) and old:
            for (_, was), (_, now) in zip(sorted(old), sorted(new), strict=True):
                pairs[now, device] = was
    return pairs
