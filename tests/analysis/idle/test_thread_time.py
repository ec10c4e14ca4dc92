"""Time of threads by cause is that of the slice that began last, nanosecond by nanosecond, compiled or not."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.analysis.core.intervals import union
from warplens.analysis.idle import thread_time
from warplens.analysis.idle.causes import BY_SLICE
from warplens.analysis.idle.thread_time import ThreadTimeline, ThreadWindows, time_by_cause

SLICE = st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12), st.integers(0, len(BY_SLICE) - 1))
WINDOW = st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 15))


@pytest.mark.parametrize("compiled", [True, False])
@given(
    slices=st.lists(SLICE, min_size=1, max_size=12), windows=st.lists(WINDOW, min_size=1, max_size=5),
    profiler=st.tuples(st.integers(0, 30), st.integers(0, 6)),
)
def test_each_nanosecond_is_of_the_slice_that_began_last(
    compiled: bool, slices: list[tuple[int, ...]], windows: list[tuple[int, ...]], profiler: tuple[int, int]
) -> None:
    thread, start, dur, cause = (np.array(one, dtype=np.int64) for one in zip(*slices, strict=True))
    asked, begin, length = (np.array(one, dtype=np.int64) for one in zip(*windows, strict=True))
    overhead = union(np.array(profiler[:1]), np.array([sum(profiler)]))
    with mock.patch.object(thread_time.SWEEP.__class__, "load", lambda _: None) if not compiled else mock.MagicMock():
        found = time_by_cause(
            ThreadTimeline(thread, start, start + dur, cause), ThreadWindows(asked, begin, begin + length), overhead)
    expected = np.zeros((len(BY_SLICE), len(windows)), dtype=np.int64)
    for at, (who, first, ns) in enumerate(windows):
        for moment in range(first, first + ns):
            running = [one for one in slices if one[0] == who and one[1] <= moment < one[1] + one[2]]
            if running and not profiler[0] <= moment < sum(profiler):
                # of those that begin together the shorter is inside; of equal ones the one that comes later
                inner = max(enumerate(running), key=lambda one: (one[1][1], -one[1][2], one[0]))[1][3]
                expected[0 if any(one[3] == 0 for one in running) else inner, at] += 1
    assert found.tolist() == expected.tolist()
