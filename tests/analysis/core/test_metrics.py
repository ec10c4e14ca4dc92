"""Values of metrics read as a person writes them."""

from __future__ import annotations

import pytest

from warplens.analysis.core.metrics import change, value_text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(-4.2, "B", "−4 B"), (-0.3, "B", "0 B"), (42_000_000_000, "B", "39.1 GiB"), (1_500_000, "B", "1.4 MiB"),
     (2.5e11, "B/s", "250 GB/s"), (-4.2e-9, "MHz", "0 MHz"), (1186.9, "MHz", "1,187 MHz"), (0.25, "%", "0.25%"),
     (None, "W", "–")],
)
def test_a_value_has_the_unit_that_fits_it(value: float | None, unit: str, text: str) -> None:
    assert value_text(value, unit) == text


def test_the_unit_stands_once_where_it_is_the_same() -> None:
    assert change(1187.0, 210.0, "MHz") == "1,187 → 210 MHz" and change(19.0, 43.0, "%") == "19 → 43%"
    assert change(900.0, 2_000_000.0, "B") == "900 B → 1.9 MiB"
