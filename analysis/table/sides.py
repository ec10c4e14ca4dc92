"""Two runs' answers side by side: one row per key, each number as ``_a``, ``_b`` and ``_delta``.

A row that only one run has did not occur in the other: counts and sums are 0 on that side, while measured values (a
mean, a utilisation) stay null, and so do the sums on a device or rank that the run does not have, sums that none of
its rows has, and all sums of a run that lacks the data (its places are None).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import polars as pl

from ..contract.column import Column, keys_of, ranked_sums
from ..core import units
from ..core.names.same_function import Function, function_key, same_functions
from ..core.names.short_name import fit_name

Places = Mapping[str, Collection[str | int]]
"""The values of some keys that a run has: its devices, its ranks."""


def paired_rows(
    a: pl.DataFrame, b: pl.DataFrame, columns: Sequence[Column], places: tuple[Places | None, Places | None] = ({}, {})
) -> pl.DataFrame:
    """Rows of both runs joined on their keys (null equals null), in the columns of ``column.side_by_side``. Sorted by
    the absolute change of the most important sum, then of the next."""
    columns = [column for column in columns if column.pairs != "alone"]
    b = _under_the_same_names(a, b, columns)
    keys, ranked = keys_of(columns), ranked_sums(columns)
    a, b = _with_keys_of_one_type(a, b, keys)
    sums = [column.name for column in ranked]
    names = [column.name for column in columns if column.pairs != "key"]
    joined = a.select(*keys, *(pl.col(name).alias(f"{name}_a") for name in names)).join(
        b.select(*keys, *(pl.col(name).alias(f"{name}_b") for name in names)),
        on=list(keys), how="full", nulls_equal=True, coalesce=True,
    )
    # a row missing on one side has null for all values there; a null sum alone was not measured
    filled = joined.with_columns(
        pl.when(pl.all_horizontal(pl.lit(True), *(
            pl.col(key).is_null() | pl.col(key).is_in(list(has)) for key, has in of.items() if key in keys),
            *(pl.col(f"{name}_{side}").is_null() for name in names)))
        .then(0).otherwise(pl.col(f"{total}_{side}")).alias(f"{total}_{side}")
        for side, frame, of in zip("ab", (a, b), places, strict=True) if of is not None
        for total in sums if frame.is_empty() or frame[total].count()
    )
    differences = [
        (pl.col(f"{column.name}_b") - pl.col(f"{column.name}_a")).alias(f"{column.name}_delta")
        for column in columns
        if column.differs
    ]
    result = filled.with_columns(differences)
    # per cycle first; all null, and so without effect, if whole recordings are compared
    first = [[one.name for one in ranked if (one.per == "cycle") == per][:2] for per in (True, False)]
    changes = [pl.col(f"{name}_delta").abs() for names in first for name in names]
    # without a change, or as much of one, by size
    changes += [pl.max_horizontal(f"{name}_a", f"{name}_b") for names in first for name in names]
    texts = [pl.col(key).cast(pl.String) for key in keys]
    return result.sort(*changes, *texts, descending=[True] * len(changes) + [False] * len(keys), nulls_last=True)


def _with_keys_of_one_type(a: pl.DataFrame, b: pl.DataFrame, keys: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Names of one run may be categories and those of the other texts, as where formats differ."""
    differ = {key: (a[key].dtype, b[key].dtype) for key in keys if a[key].dtype != b[key].dtype}
    one = {key: other if mine == pl.Null else mine for key, (mine, other) in differ.items()}
    return a.cast(one), b.cast(one)  # type: ignore[arg-type]


def _under_the_same_names(a: pl.DataFrame, b: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """B with A's names for functions that are named differently there."""
    keys, pairs = _other_names(a, b, columns)
    if not pairs:
        return b
    names = [pairs.get((row[0], row[1:]), row[0]) for row in b.select(pl.col(*keys).cast(pl.String)).rows()]
    return b.with_columns(pl.Series(keys[0], names, pl.String).cast(b.schema[keys[0]]))


def _other_names(
    a: pl.DataFrame, b: pl.DataFrame, columns: Sequence[Column]
) -> tuple[list[str], dict[Function, str]]:
    """The key columns, the name first, and A's name of each function of B that is named differently there."""
    name = next((one.name for one in columns if one.role == "name" and one.pairs == "key"), None)
    size = next((one.name for one in columns if one.role == "count" and one.pairs == "sum"), None)
    if name is None or size is None:
        return [], {}
    keys = [name, *(key for key in keys_of(columns) if key != name)]

    def functions(side: pl.DataFrame) -> dict[Function, float]:
        rows = side.drop_nulls(name).select(pl.col(*keys).cast(pl.String), often=pl.col(size).fill_null(0)).rows()
        return {(row[0], row[1:-1]): row[-1] for row in rows}

    return keys, same_functions(functions(a), functions(b))


def names_note(a: pl.DataFrame, b: pl.DataFrame, columns: Sequence[Column]) -> tuple[str, ...]:
    """A note where rows of B stand under another name of A, not only under another spelling of theirs."""
    pairs = {now: was for (now, _), was in _other_names(a, b, columns)[1].items()
             if function_key(now) != function_key(was)}
    if not pairs:
        return ()
    now, was = min(pairs.items(), key=lambda one: (len(one[0]), one))
    names = units.counted(len(pairs), "name of B stands under its", "names of B stand under their")
    return (f"{names} like in A: {fit_name(now, 60)} under {fit_name(was, 60)}.",)
