"""What a number was and what it became, in one cell of a list: ``313 → 1,072``.

The numbers themselves are columns of their own, for exports and for sorting; these are how a list shows a pair of them.
"""

from __future__ import annotations

import polars as pl

from ...core import units
from ...core.metrics import change


def _number(value: float | None) -> str:
    if value is None:
        return units.MISSING
    return units.number(round(value) if abs(value) >= 1000 else float(f"{value:.3g}"))


def _pair(a: float | None, b: float | None) -> str | None:
    return None if a is None and b is None else f"{_number(a)} → {_number(b)}"


def _once(a: float | None, b: float | None) -> str | None:
    if a is None and b is None:
        return None
    left, right = _number(a), _number(b)
    return left if left == right else f"{left} → {right}"


def _metric(a: float | None, b: float | None, unit: str | None) -> str | None:
    return None if a is None and b is None else change(a, b, unit or "")


def arrows(table: pl.DataFrame) -> pl.DataFrame:
    """The table with its pairs of numbers as text: ``launches``, ``launch_us`` and ``change``."""
    metrics = table.select("mu_a", "mu_b", pl.col("unit").cast(pl.String)).rows()
    return table.with_columns(
        pl.Series("launches", [_once(*pair) for pair in table.select("launches_a", "launches_b").rows()], pl.String),
        pl.Series("launch_us", [_pair(*pair) for pair in table.select("launch_us_a", "launch_us_b").rows()], pl.String),
        pl.Series("change", [_metric(*row) for row in metrics], pl.String),
    )
