"""Functions that only changed their name between two versions are one function.

A name that only A has and one that only B has, on the same device and of the same kind, are a pair where the same
operator launches them, as often and at the same place in the cycle (``launched``); else where they are the same without
template arguments, parameter lists, address suffixes and tile sizes. Never where something else fits as well.
"""

from __future__ import annotations

import polars as pl

from ...contract.options import Options
from ...core.names.same_function import Function, same_functions
from .launchers import by_launch
from .samples import Work, function_runs


def renamed(a: Work, b: Work, moved: dict[str, str], options: Options) -> dict[tuple[str, str | None], str]:
    """(name in B, device) → name in A for the functions that are one; ``moved`` is B's devices under A's names."""
    keys = ["function", "device", "kind"]
    only_a, only_b = _alone(a.rows, b.rows), _alone(b.rows, a.rows)
    pairs = by_launch(a, b, only_a.select(keys), only_b.select(keys), moved, options)
    taken = {(was, device) for (_, device), was in pairs.items()}
    left_a = {key: often for key, often in _often(only_a).items() if (key[0], key[1][0]) not in taken}
    left_b = {key: often for key, often in _often(only_b).items() if (key[0], key[1][0]) not in pairs}
    return pairs | {(now, where[0]): was for (now, where), was in same_functions(left_a, left_b).items()}


def _often(alone: pl.DataFrame) -> dict[Function, float]:
    """Launches per cycle of each function, device and kind."""
    return {
        (function, (device, kind)): instances / max(cycles, 1)
        for function, device, kind, instances, cycles in alone.rows()
    }


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
