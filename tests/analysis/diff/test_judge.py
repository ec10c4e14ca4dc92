"""The judge: what is called, what is proved unchanged, what is left out, and what the shape of the times says."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.analysis.diff.gate import judged_change
from warplens.analysis.diff.judge import compared, form, judge, outliers, parts_of_change, q_values


def times(count: int, mean: float = 100.0, noise: float = 0.01, seed: int = 1) -> np.ndarray:
    return mean * np.random.default_rng(seed).normal(1, noise, count)


@pytest.mark.parametrize(("b", "word"), [
    (times(24, 110, seed=2), "slower"), (times(24, 90, seed=2), "faster"), (times(24, seed=2), "unchanged"),
    (times(24, 100.5, noise=0.001, seed=2), "unchanged"), (times(6, 100, noise=0.2, seed=3), "cannot tell"),
    (times(1), "cannot tell"),
])
def test_a_word_is_proved_or_withheld(b: np.ndarray, word: str) -> None:
    one = judge(times(24), b)
    assert one.word == word
    if one.low is not None and one.high is not None:
        assert one.low <= one.delta <= one.high
    assert one.b - one.a == pytest.approx(one.delta)


@given(st.lists(st.floats(1, 1000), min_size=2, max_size=40), st.lists(st.floats(1, 1000), min_size=2, max_size=40))
def test_swapping_two_sets_of_times_mirrors_every_figure(a: list[float], b: list[float]) -> None:
    one, back = judge(np.array(a), np.array(b)), judge(np.array(b), np.array(a))
    assert one.delta == pytest.approx(-back.delta)
    assert (one.low, one.high) == (pytest.approx(-back.high), pytest.approx(-back.low))
    assert {one.word, back.word} != {"slower"} and {one.word, back.word} != {"faster"}


def test_a_change_in_some_cycles_is_a_change_of_the_mean() -> None:
    b = times(44, seed=2)
    b[5::3] *= 1.5
    assert judge(times(44), b).word == "slower"


HIGH = 150.0


def shaped(places: Sequence[int], count: int = 24) -> np.ndarray:
    x = times(count)
    x[list(places)] = HIGH
    return x


@pytest.mark.parametrize(("places", "expected"), [
    ((), {"kind": "one level", "count": 0}), ((0, 1), {"kind": "first", "count": 2}),
    ((11,), {"kind": "outliers", "count": 1}), (range(3, 24, 4), {"kind": "every", "period": 4, "count": 6}),
    (range(13, 24), {"kind": "since", "since": 14}),
    ((2, 5, 6, 11, 17, 20, 21, 23), {"kind": "two levels", "count": 8}),
])
def test_the_shape_of_the_times_is_named(places: Sequence[int], expected: dict[str, object]) -> None:
    shape = form(shaped(places)).shape
    assert {key: getattr(shape, key) for key in expected} == expected
    if places:
        assert shape.cycles == tuple(at + 1 for at in places) and shape.high_ms == pytest.approx(HIGH)


def test_cycles_are_named_by_their_numbers() -> None:
    assert form(shaped(range(13, 24)), numbers=range(101, 125)).shape.since == 114


def test_the_first_cycles_are_left_out_on_both_sides_and_outliers_where_there_are_no_levels() -> None:
    a, b = times(24, seed=5), shaped((0, 1))
    b[11] = 300
    left = [[at for at in range(24) if at not in used] for used in compared(a, b, (form(a), form(b)))]
    assert left == [[0, 1], [0, 1, 11]]
    levels = shaped(range(13, 24))
    left = [[at for at in range(24) if at not in used] for used in compared(levels, b, (form(levels), form(b)))]
    assert left == [[0, 1], [0, 1]]


def test_of_few_times_an_outlier_is_named_and_stays_compared() -> None:
    x = np.array([100.0, 101, 99, 100, 180, 100])
    assert form(x).shape.kind == "one level" and outliers(x, form(x)) == [4]
    assert len(judge(x, x).used_a) == 6


def test_a_hundred_thousand_cycles_have_a_shape_too() -> None:
    assert form(shaped(range(6, 100_000, 7), 100_000)).shape.period == 7


@given(st.floats(0, 50), st.floats(0, 50), st.floats(0, 50), st.floats(0, 50))
def test_the_parts_of_a_change_sum_to_it(l_a: float, l_b: float, u_a: float, u_b: float) -> None:
    parts = parts_of_change((l_a, l_b), (u_a, u_b))
    assert sum(parts) == pytest.approx(l_b * u_b - l_a * u_a, abs=1e-9)
    assert sum(parts_of_change((l_b, l_a), (u_b, u_a))) == pytest.approx(-sum(parts), abs=1e-9)


@pytest.mark.parametrize(("low", "high", "percent", "result"), [
    (6, 8, 5, "FAIL"), (2, 8, 5, "NOT JUDGED"), (-1, 4.4, 5, "PASS"), (-1, 4.9, 1, "PASS"), (1.5, 4.9, 1, "FAIL"),
    (-1, 9, 10, "PASS"), (None, None, 5, "NOT JUDGED"),
])
def test_a_gate_passes_only_what_it_excludes(
    low: float | None, high: float | None, percent: float, result: str
) -> None:
    assert judged_change(low, high, 100.0, percent) == result


def test_q_is_that_of_benjamini_and_hochberg() -> None:
    assert q_values([0.01, None, 0.04, 0.03]) == [pytest.approx(0.03), None, pytest.approx(0.04), pytest.approx(0.04)]
