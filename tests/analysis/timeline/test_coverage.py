"""Rows of overlapping slices are those of the definition, however many of them are looked at together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.analysis.timeline import coverage
from warplens.analysis.timeline.coverage import levels

slices = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=40)


def by_definition(found: list[tuple[int, int]], most: int) -> list[int]:
    """One row deeper than the deepest earlier slice that is not over yet."""
    rows: list[int] = []
    for at, (start, _) in enumerate(found):
        open_ = [rows[before] for before in range(at) if sum(found[before]) > start]
        rows.append(min(max(open_, default=-1) + 1, most - 1))
    return rows


@pytest.mark.parametrize("block", [1, 3, 1 << 16])
def test_no_slice_hides_another(block: int) -> None:
    @given(slices, st.integers(1, 6))
    def rows_are_those_of_the_definition(found: list[tuple[int, int]], most: int) -> None:
        found.sort()
        starts = np.array([start for start, _ in found], dtype=np.int64)
        ends = np.array([start + length for start, length in found], dtype=np.int64)
        assert levels(starts, ends, most).tolist() == by_definition(found, most)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(coverage, "_BLOCK", block)
        rows_are_those_of_the_definition()
