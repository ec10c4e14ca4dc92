"""Among many rows some move by chance: the false discoveries of a list are kept in bounds, not those of one row.

The rule of Benjamini and Hochberg, 1995: with p-values in ascending order, q of the i-th of n is the least of p·n/j
over all j from i on. What is called at q has a share of at most q of false calls among all that is called.
"""

from __future__ import annotations

from typing import Any


def control(rows: list[dict[str, Any]]) -> None:
    """Fill ``q`` of every row from all their ``p``; rows whose p is None were not tested and keep the q they have."""
    tested = sorted((row for row in rows if row["p"] is not None), key=lambda row: row["p"])
    smallest = 1.0
    for rank in range(len(tested), 0, -1):
        smallest = min(smallest, tested[rank - 1]["p"] * len(tested) / rank)
        tested[rank - 1]["q"] = smallest
