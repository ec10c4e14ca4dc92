"""Figures made of several values: unknown where one of them is.

``max_horizontal``, ``sum`` and ``fill_null(0)`` take an unknown for nothing; a bound, a least time, a loss or a share
made that way says what nobody measured.
"""

from __future__ import annotations

import polars as pl


def largest(*columns: str) -> pl.Expr:
    """The largest of these columns in each row; null if one of them is."""
    return pl.when(pl.all_horizontal(pl.col(*columns).is_not_null())).then(pl.max_horizontal(*columns))


def total(values: pl.Expr) -> pl.Expr:
    """The sum of the values; null if one of them is null, or if the sum leaves the number range."""
    whole = values.sum()
    return pl.when((values.null_count() == 0) & whole.is_finite()).then(whole)
