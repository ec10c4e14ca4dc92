"""Rows of overlapping slices are those of the definition, however many of them are looked at together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kept_code import native

from warplens.analysis.timeline import rows
from warplens.analysis.timeline.rows import levels

slices = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), max_size=40)


def by_definition(found: list[tuple[int, int]], most: int) -> list[int]:
    """Below the deepest earlier slice that is not over yet, if that one holds it, else in the first free row."""
    rows: list[int] = []
    for at, (start, length) in enumerate(found):
        over = {rows[before]: sum(found[before]) for before in range(at) if sum(found[before]) > start}
        below = max(over, default=-1) + 1
        holds = not over or over[below - 1] >= start + length
        rows.append(below if holds else next(row for row in range(below + 1) if row not in over))
    return [min(row, most - 1) for row in rows]


@pytest.mark.parametrize("block", [1, 3, 1 << 16])
@pytest.mark.parametrize("compiled", [False, True])
def test_no_slice_hides_another(compiled: bool, block: int) -> None:
    @given(slices, st.integers(1, 6))
    def rows_are_those_of_the_definition(found: list[tuple[int, int]], most: int) -> None:
        found.sort()
        starts = np.array([start for start, _ in found], dtype=np.int64)
        ends = np.array([start + length for start, length in found], dtype=np.int64)
        assert levels(starts, ends, most).tolist() == by_definition(found, most)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rows, "_BLOCK", block)
        code = native(rows.ROWS) if compiled else None
        patched.setattr(type(rows.ROWS), "load", lambda self: code)
        rows_are_those_of_the_definition()


def test_steps_that_begin_in_the_call_that_ends_the_step_before_stay_in_one_row() -> None:
    """Each stood two rows below the one before: of a training loop with Python frames the screen was a staircase."""
    found = [(0, 1000), (0, 99)]
    for at in range(1, 10):
        found += [(100 * at - 3, 5), (100 * at, 99)]  # profiler.step(), and the step that begins in it
    starts, ends = (np.array(each, dtype=np.int64) for each in zip(*((a, a + b) for a, b in found), strict=True))
    assert levels(starts, ends, 100).tolist() == [0, 1, *[2, 1] * 9]
