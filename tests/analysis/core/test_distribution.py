"""Where outliers begin: Tukey's fence of quartiles that are numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from warplens.analysis.core.distribution import LEAST_EXCESS, LEAST_FOR_OUTLIERS, fence


@pytest.mark.parametrize("count", [4, 5, 6, 7, 8, 100, 1001])
def test_the_fence_is_tukeys_of_numpys_quartiles(count: int) -> None:
    values = np.random.default_rng(count).lognormal(15, 0.6, count)
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
    assert fence(values) == pytest.approx(max(high + 1.5 * (high - low), middle * (1 + LEAST_EXCESS)), rel=1e-12)


def test_nothing_stands_out_of_a_few_nor_by_a_microsecond() -> None:
    assert fence(np.ones(LEAST_FOR_OUTLIERS - 1)) == float("inf")
    assert fence(np.array([1e6, 1e6, 1e6, 1e6, 1e6 + 1000])) == pytest.approx(1e6 * (1 + LEAST_EXCESS))
