"""Numbers read as a person would write them."""

from __future__ import annotations

import pytest

from warplens.analysis.core import units
from warplens.analysis.table.column import Column, Unit


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (26_500_000, "ns", "26.50 ms"),
        (749, "ns", "749 ns"),
        (1_001_081_250, "ns", "1.00 s"),
        (0.463, "fraction", "46.3%"),
        (4.66, "percent", "4.7%"),
        (1626, "count", "1,626"),
        (3.43, "ratio", "3.4×"),
        (1.04, "ratio", "1.04×"),
        (0.0012, "number", "0.0012"),
        (1186.875, "number", "1,187"),
        (2.5e13, "number", "25,000,000,000,000"),
        (0, "number", "0"),
        (3 << 30, "bytes", "3.0 GiB"),
        (True, "bool", "yes"),
        (None, "ns", units.MISSING),
        (float("nan"), "number", units.MISSING),
    ],
)
def test_a_value_in_its_unit(value: float | None, unit: Unit, text: str) -> None:
    assert units.short(value, Column("x", "x", unit, "")) == text


@pytest.mark.parametrize(("value", "text"), [(1_500_000, "+1.50 ms"), (-2_300_000, "−2.30 ms"), (0, "+0 ns")])
def test_a_difference_has_its_sign(value: int, text: str) -> None:
    assert units.short(value, Column("x", "x", "ns", "", signed=True)) == text


def test_a_sparkline_is_scaled_to_its_largest() -> None:
    assert units.sparkline([0, 1, 2, 4]) == "▁▃▅█"
