"""Statistics of many groups at once equal what a loop over the launches of each group would give."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.analysis.core.quantiles import BINS, codes, combined, dense, latencies, order_by, stable_order
from warplens.analysis.kernels import launch_groups

spans = st.integers(0, 10**6) | st.integers(0, 63).map(lambda bit: (1 << bit) - 1)
grouped = st.lists(st.lists(spans, min_size=1, max_size=30), min_size=1, max_size=6)


def bar_of(duration: int, low: float, span: float) -> float:
    """Where on a log axis of ``BINS`` bars the duration lies."""
    return (math.log2(max(duration, 1)) - low) / span * BINS


@given(grouped)
def test_bars_hold_the_launches_between_their_borders_on_a_log_axis(groups):
    of = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    found = latencies(of, np.array([ns for group in groups for ns in group], dtype=np.int64), len(groups)).histograms()
    for group, bars in zip(groups, found.tolist(), strict=True):
        low, high = math.log2(max(*group, 1)), math.log2(max(min(group), 1))
        low, high = min(low, high), max(low, high)
        if high - low < 1:
            low, high = low - (1 - (high - low)) / 2, low - (1 - (high - low)) / 2 + 1
        places = [bar_of(ns, low, high - low) for ns in group]
        # A launch exactly on a border may be put on either side by rounding in this reckoning.
        for bar in range(BINS):
            edge = 1e-9 if bar < BINS - 1 else 2.0
            surely = sum(bar + 1e-9 <= place <= bar + 1 - edge or (bar == BINS - 1 and place >= bar + 1e-9)
                         for place in places)
            maybe = sum(bar - 1e-9 <= place <= bar + 1 + 1e-9 for place in places)
            assert surely <= bars[bar] <= maybe
        assert sum(bars) == len(group)


def test_a_kernel_without_spread_is_one_bar_in_the_middle():
    assert latencies(np.zeros(5, np.int64), np.full(5, 100), 1).histograms().tolist() == [[0] * 6 + [5] + [0] * 5]


@given(st.lists(st.tuples(st.sampled_from([0, 1, 7, 10**9]), st.integers(0, 3), st.integers(0, 2**40)), min_size=1))
def test_combinations_get_the_same_number_exactly_where_they_are_the_same(rows):
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    number, place = dense(combined(columns))
    assert {(number[a] == number[b], rows[a] == rows[b]) for a in range(len(rows)) for b in range(len(rows))} <= {
        (True, True), (False, False)}
    assert number[place].tolist() == list(range(len(set(rows))))


@given(st.lists(st.integers(0, 9) | st.integers(0, 63).map(lambda bits: (1 << bits) - 1), min_size=1))
def test_equal_numbers_keep_their_order_whether_or_not_they_fit_one_word_with_their_places(numbers):
    keys = np.array(numbers)
    assert stable_order(keys).tolist() == sorted(range(len(numbers)), key=lambda place: numbers[place])


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1), st.booleans())
def test_rows_come_in_the_order_of_all_keys_with_equal_ones_as_they_are(rows, nearly):
    keys = [np.array(key) for key in zip(*(sorted(rows) if nearly else rows), strict=True)]
    assert order_by(*keys).tolist() == np.lexsort(keys[::-1]).tolist()


def test_a_missing_category_is_one_of_its_own():
    told = codes(pl.Series(["a", None, "b", "a", None], dtype=pl.Categorical()))
    assert [told[n] == told[0] for n in range(5)] == [True, False, False, True, False] and told[1] == told[4] != told[2]
    assert len(set(codes(pl.Series([None, None], dtype=pl.Categorical())).tolist())) == 1


@pytest.mark.parametrize("longest", [10**5, 2**61])
def test_kinds_by_grid_are_told_whether_or_not_the_numbers_fit_one_word(longest):
    times = {"8": 10, "16": 11, "32": 1000, "64": longest}
    grid = np.array([number for number in range(4) for _ in range(5)])
    durations = np.array([time for time in times.values() for _ in range(5)])
    told = launch_groups.by_grid(np.zeros(20, np.int64), grid, durations, 1)
    kind = told.kinds()
    assert told.per_group.tolist() == [3] and len(set(kind[:10].tolist())) == 1 and len(set(kind.tolist())) == 3
