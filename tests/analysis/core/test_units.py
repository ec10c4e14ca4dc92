"""Numbers read as a person would write them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from warplens.analysis.contract.column import Column, Unit
from warplens.analysis.core import units


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


@pytest.mark.parametrize(("value", "text"), [(1_500_000, "+1.50 ms"), (-2_300_000, "−2.30 ms"), (0, "0 ns")])
def test_a_difference_has_its_sign(value: int, text: str) -> None:
    assert units.short(value, Column("x", "x", "ns", "", signed=True)) == text


def test_a_sparkline_is_scaled_to_its_largest() -> None:
    assert units.sparkline([0, 1, 2, 4]) == "▁▃▅█"


@pytest.fixture
def microseconds() -> Iterator[None]:
    units.use("us")
    yield
    units.use("auto")


def test_times_of_a_sentence_share_one_unit() -> None:
    assert units.amount(750.2, 751.4) == "750 → 751 ms"
    assert units.amount(-0.0214, signed=True) == "−0.021 ms"


@pytest.mark.usefixtures("microseconds")
def test_the_setting_of_units_holds_for_sentences_and_axes_too() -> None:
    from warplens.analysis.core.histogram_lines import histogram_lines
    from warplens.analysis.diff.cycle_time import CycleTime
    from warplens.analysis.diff.judge import Shape
    from warplens.analysis.diff.same_work import SameWork
    from warplens.analysis.diff.sentences import cycle_sentence

    assert units.amount(0.75, 1.5) == "750 → 1,500 µs"
    assert (units.figure(2.6, signed=True), units.rough_figure(-0.0094)) == ("+2,600", "−9.4")
    unit, lines = histogram_lines({"edges_ns": [0, 1e6, 2e6], "a": [3, 1]}, most=24)
    assert (unit, lines[0].label) == ("µs", "0–1,000")
    level = Shape("one level", 0, 8)
    cycles = CycleTime("unchanged", 8, 8, 750.0, 751.0, 750.0, 751.0, 750.0, 751.0, 1.0, -1.0, 3.0, 0.05, level, level)
    said = cycle_sentence(cycles, SameWork("yes", "operators", "cycle", (), ""))
    assert "750,000 → 751,000 µs" in said and "−1,000 to +3,000 µs" in said


@pytest.mark.parametrize(("value", "unit", "text"), [
    (-1536, "bytes", "−1.5 KiB"), (1536, "bytes", "+1.5 KiB"), (-3, "bytes", "−3 B"), (0, "bytes", "0 B"),
    (-0.04, "percent", "0.0%"), (0.04, "percent", "0.0%"), (-0.0004, "fraction", "0.0%"), (-0.2, "percent", "−0.2%"),
    (-0.3, "ns", "0 ns"), (-0.2, "count", "0"), (-2e9, "rate", "−2 GB/s"),
])
def test_a_delta_has_a_real_sign_and_what_rounds_to_zero_has_none(value: float, unit: Unit, text: str) -> None:
    assert units.short(value, Column("x", "x", unit, "", signed=True)) == text


def test_a_small_share_is_not_shown_as_none() -> None:
    assert [units.percent(value) for value in (0, 0.04, 0.05, 12.34)] == ["0.0%", "<0.1%", "0.1%", "12.3%"]
    assert units.percent(0.4, places=0) == "<1%" and units.percent(0.04, signed=True) == "0.0%"


def test_work_has_the_unit_that_fits() -> None:
    assert [units.work(flops) for flops in (5.766e12, 6.37e7, 12)] == ["5.766 TFLOP", "63.7 MFLOP", "12 FLOP"]


@pytest.mark.parametrize(
    ("ns", "doubt", "text"),
    [(530.8e6, 12e6, "530 ms"), (530.8e6, 1e6, "531 ms"), (7.99e6, 1e4, "7.99 ms"), (41.26e6, 4e5, "41.3 ms"),
     (3e6, 12e6, "<10.00 ms"), (1.234e9, 0, "1.23 s"), (0, 12e6, "0 ns")],
)
def test_a_duration_has_no_more_figures_than_its_doubt_leaves(ns: float, doubt: float, text: str) -> None:
    assert units.within(ns, doubt) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [(999.97e3, "1.00 ms"), (999.94e3, "999.9 µs"), (99.996e3, "100.0 µs"), (999.97e6, "1.00 s"), (999.6, "1.00 µs"),
     (999.4, "999 ns"), (-999.97e3, "−1.00 ms")],
)
def test_what_rounds_to_a_thousand_is_one_of_the_next_unit(ns: float, text: str) -> None:
    assert units.duration(ns) == text


def test_bytes_and_rates_that_round_up_have_the_next_unit_too() -> None:
    assert units.size(1023.99 * 1024) == "1.0 MiB" and units.rate(999.99e6) == "1 GB/s"


def test_a_small_number_keeps_three_figures() -> None:
    assert [units.number(value) for value in (0.0315, 0.00316, 0.315)] == ["0.0315", "0.00316", "0.315"]


@pytest.mark.parametrize(
    ("value", "text"), [(0.999, "+99.9 pt"), (1.0, "+100 pt"), (-1.0, "−100 pt"), (-0.9994, "−99.9 pt")]
)
def test_a_share_that_one_run_has_all_of_is_no_wider_than_others(value: float, text: str) -> None:
    assert units.short(value, Column("x", "x", "fraction", "", signed=True, side="delta")) == text
