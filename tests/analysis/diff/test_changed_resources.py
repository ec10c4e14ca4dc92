"""A changed resource: how often its p-value and its interval are wrong where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from warplens.analysis.core.metrics import metric
from warplens.analysis.diff.resources import Reading, _reading

TRIALS = 400
KINDS = [(4, 0.01), (12, 0.05)]
"""Few cycles of a steady clock, more of one that is not."""


def clocks(a: list[float], b: list[float]) -> Reading:
    """A clock of one device, read in so many cycles of either run."""
    values = np.array(a), np.array(b)
    return _reading(metric("gpu_sm_frequency", "MHz", 1980.0), "GPU 0", values, (0.0, 0.0), (1, 1), set(), 0)


def trials(cycles: int, spread: float, change: float) -> list[Reading]:
    """Clocks around 1,500 MHz, and so many times that in B, that vary by that share from cycle to cycle."""
    chance = np.random.default_rng(11)
    return [
        clocks(*(list(1500 * scale * np.exp(chance.normal(0, spread, cycles))) for scale in (1.0, change)))
        for _ in range(TRIALS)
    ]


@pytest.mark.parametrize(("cycles", "spread"), KINDS)
def test_a_clock_that_did_not_change_seldom_seems_to(cycles: int, spread: float) -> None:
    wrong = sum(found.p <= 0.05 for found in trials(cycles, spread, 1.0))
    assert 0.01 * TRIALS <= wrong <= 0.09 * TRIALS


@pytest.mark.parametrize(("cycles", "spread"), KINDS)
def test_the_interval_of_the_loss_holds_the_true_one(cycles: int, spread: float) -> None:
    found = [one.resource for one in trials(cycles, spread, 0.8)]
    held = sum(one.loss_low <= -np.log(0.8) <= one.loss_high for one in found if one.loss_low and one.loss_high)
    assert 0.91 * TRIALS <= held <= 0.995 * TRIALS


def test_a_change_of_four_times_its_spread_is_found() -> None:
    assert sum(found.p <= 0.001 for found in trials(12, 0.05, 0.8)) >= 0.99 * TRIALS


def test_one_cycle_on_a_side_proves_nothing() -> None:
    assert clocks([1500.0], [700.0, 700.0, 700.0]).p == 1.0
    assert 0 < clocks([1500.0] * 2, [700.0] * 2).p < 0.01
