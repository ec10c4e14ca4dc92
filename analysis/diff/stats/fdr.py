"""The false discovery rate: among many rows some move by chance, and the share of false calls is kept in bounds.

The rule of Benjamini and Hochberg, 1995: with p-values in ascending order, q of the i-th of n is the least of p·n/j
over all j from i on. What is called at q has a share of at most q of false calls among all that is called.
"""

from __future__ import annotations

from collections.abc import Sequence


def q_values(p_values: Sequence[float | None]) -> list[float | None]:
    """q of every p-value, in their order; None where nothing was tested."""
    found: list[float | None] = [None] * len(p_values)
    tested = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    smallest = 1.0
    for rank in range(len(tested), 0, -1):
        p, place = tested[rank - 1]
        smallest = min(smallest, p * len(tested) / rank)
        found[place] = smallest
    return found
