"""What is said of thousands of cycles is what would be said if all their pairs were looked at."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from warplens.analysis.diff.stats import permutation, robust_location
from warplens.analysis.diff.stats.robust_location import centre, hodges_lehmann
from warplens.analysis.diff.verdict.suspects import _dominant


@pytest.mark.parametrize("grain", [None, 2], ids=["distinct", "with ties"])
def test_the_middle_difference_and_its_interval_are_found_without_all_pairs(
    grain: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(5)
    a, b = draw.normal(750, 9, 180), draw.normal(752, 12, 233)
    if grain is not None:
        a, b = a.round(grain - 2), b.round(grain - 2)
    plain = hodges_lehmann(a, b)
    monkeypatch.setattr(robust_location, "_MOST_PAIRS", 500)
    assert hodges_lehmann(a, b) == pytest.approx(plain, rel=1e-12)


@pytest.mark.parametrize("cycles", [5, 13, 40])
@pytest.mark.parametrize("chunk", [100, 1_000_000], ids=["few at once", "all at once"])
def test_the_noise_of_halves_is_that_of_halves_put_in_order(
    cycles: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(1).lognormal(0, 1, (7, cycles)).round(1)  # with ties
    halves = permutation.assignments(cycles // 2, cycles - cycles // 2, permutation.HALVINGS - 1)
    apart = [[abs(centre(row[~second]) - centre(row[second])) for second in halves] for row in values]
    monkeypatch.setattr(permutation, "_CHUNK", chunk)
    assert permutation.half_noise(values) == pytest.approx(np.quantile(apart, 0.95, axis=1), rel=1e-12)


def test_dominance_is_the_share_of_pairs() -> None:
    draw = np.random.default_rng(2)
    for shift in (0.0, 0.5, 2.0, 8.0, -8.0):
        a, b = draw.normal(0, 1, 40).round(1), draw.normal(shift, 1, 30).round(1)
        larger = np.sign(b[None, :] - a[:, None])
        from warplens.analysis.diff.verdict.suspects import DOMINANCE

        assert _dominant((a, b)) == (max((larger > 0).mean(), (larger < 0).mean()) >= DOMINANCE)


def test_permutations_do_not_depend_on_how_many_are_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(3)
    block = permutation.Block(np.array([0, 1]), draw.normal(0, 1, (2, 20)), draw.normal(0.4, 1, (2, 30)), np.ones(2))
    q = permutation.familywise_q({"time": [block]}, 2)["time"]
    monkeypatch.setattr(permutation, "_WIDEST", 700)
    assert permutation.familywise_q({"time": [block]}, 2)["time"] == pytest.approx(q, rel=1e-12)


@pytest.fixture
def no_orders(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """As if there were too many cycles to keep random orders of them."""
    permutation._assigned.cache_clear()
    monkeypatch.setattr(permutation, "_WIDEST_ORDER", 10)
    yield monkeypatch
    permutation._assigned.cache_clear()


def test_permutations_of_many_cycles_are_drawn_some_at_a_time(no_orders: pytest.MonkeyPatch) -> None:
    whole = permutation.assignments(20, 30)
    permutation._assigned.cache_clear()
    no_orders.setattr(permutation, "_CHUNK", 120)
    assert (permutation.assignments(20, 30) == whole).all()
    assert (permutation.assignments(20, 30, 299) == whole[:300]).all()


@pytest.mark.parametrize("kept", [True, False])
def test_every_permutation_assigns_as_many_cycles_and_none_is_preferred(
    request: pytest.FixtureRequest, kept: bool
) -> None:
    if not kept:
        request.getfixturevalue("no_orders")
    ways = permutation.assignments(25, 14)
    assert ways.shape == (1 + permutation.PERMUTATIONS, 39) and (ways.sum(axis=1) == 14).all()
    assert ways[0].tolist() == [False] * 25 + [True] * 14
    often = ways[1:].sum(axis=0)  # binomial: mean 358.6, deviation 15.2
    assert often.min() > 300 and often.max() < 420 and len(np.unique(ways, axis=0)) == len(ways)
