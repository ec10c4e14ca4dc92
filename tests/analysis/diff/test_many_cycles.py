"""What is said of thousands of cycles is what would be said if all their pairs were looked at."""

from __future__ import annotations

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
    halves = permutation.assignments(cycles // 2, cycles - cycles // 2)
    halves = halves[: permutation.HALVINGS] if len(halves) > permutation.PERMUTATIONS else halves
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
    whole = permutation.assignments(20, 30)
    permutation._known.clear()
    monkeypatch.setattr(permutation, "_CHUNK", 120)
    assert (permutation.assignments(20, 30) == whole).all()
    draw = np.random.default_rng(3)
    block = permutation.Block(np.array([0, 1]), draw.normal(0, 1, (2, 20)), draw.normal(0.4, 1, (2, 30)), np.ones(2))
    q = permutation.familywise_q([block], "time", 2)
    monkeypatch.setattr(permutation, "_WIDEST", 700)
    assert permutation.familywise_q([block], "time", 2) == pytest.approx(q, rel=1e-12)
    permutation._known.clear()


def test_every_permutation_assigns_as_many_cycles_and_none_is_preferred() -> None:
    ways = permutation.assignments(25, 14)
    assert ways.shape == (1 + permutation.PERMUTATIONS, 39) and (ways.sum(axis=1) == 14).all()
    assert ways[0].tolist() == [False] * 25 + [True] * 14
    often = ways[1:].sum(axis=0)  # binomial: mean 358.6, deviation 15.2
    assert often.min() > 300 and often.max() < 420 and len(np.unique(ways, axis=0)) == len(ways)


def test_permutations_that_are_kept_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permutation, "_KEPT_BYTES", 20_000)  # three of 1,000 times 7 bytes are too many
    for n_b in range(20, 30):
        permutation.assignments(25, n_b)
        assert sum(some.nbytes for some in permutation._known.values()) <= 20_000
    permutation._known.clear()
