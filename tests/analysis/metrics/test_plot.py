"""Plots as text: where a line goes, what the axis says, how lines are told apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.analysis.contract.options import Options
from warplens.analysis.metrics.plot import (
    LABEL,
    LETTERS,
    NOBODY,
    axis_labels,
    drawn,
    extent,
    panels,
    place_text,
    ruler,
)
from warplens.analysis.metrics.series import SAMPLE, Key, Series, envelope
from warplens.analysis.query.ask import ask
from warplens.analysis.table.export import render
from warplens.analysis.timeline.window import Window
from warplens.analysis.views import view

from .test_summary import run_of


def series(values: list[float], unit: str = "MHz", name: str = "clock", step: int = 10, timed: bool = True) -> Series:
    moments = np.arange(len(values), dtype=np.int64) * step
    return Series(Key(name, "GPU 0", unit), moments, np.array(values, dtype=np.float64), timed)


def test_a_column_has_the_range_of_its_samples() -> None:
    found = envelope(series([1.0, 9.0, 4.0, 4.0]), np.array([0, 20, 40]))
    assert (found.low.tolist(), found.high.tolist()) == ([1.0, 4.0], [9.0, 4.0])


def test_between_samples_is_a_line_and_beyond_them_nothing() -> None:
    found = envelope(series([0.0, 10.0]), np.array([-8, -2, 2, 4, 6, 8, 11, 20]))
    assert np.isnan(found.low[[0, 6]]).all()
    assert found.low[2:5].tolist() == [3.0, 5.0, 7.0]


def test_no_line_is_drawn_over_a_time_in_which_nothing_was_sampled() -> None:
    one = Series(Key("clock", None, ""), np.array([0, 10, 20, 30, 400, 410]), np.ones(6), True)
    found = envelope(one, np.arange(0, 421, 5))
    assert np.isnan(found.low[10:78]).all() and not np.isnan(found.low[:6]).any()


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=60), st.integers(1, 90))
def test_the_envelope_holds_every_sample(values: list[float], columns: int) -> None:
    one = series(values)
    first, last = extent([one])
    edges = Window(first, last, columns).edges
    found = envelope(one, edges)
    place = np.clip(np.searchsorted(edges, one.moments, side="right") - 1, 0, columns - 1)
    assert (found.low[place] <= one.values).all() and (found.high[place] >= one.values).all()


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=40), st.integers(2, 60), st.integers(3, 20))
def test_a_panel_has_the_size_asked_for_and_spans_its_values(values: list[float], columns: int, height: int) -> None:
    one = series(values)
    (panel,) = panels([one], 1)
    assert panel.low <= min(values) and panel.high >= max(values) and panel.low < panel.high
    made = drawn(panel, Window(*extent([one]), columns), height)
    assert len(made.lines) == len(made.labels) == len(made.ends) == height
    assert {len(line) for line in made.lines} == {columns} and {len(label) for label in made.labels} == {LABEL}
    assert "".join(made.lines).strip(), "a line is drawn"


def test_a_line_runs_from_the_bottom_to_the_top() -> None:
    one = series([0.0, 25.0, 50.0, 75.0, 100.0], unit="%")
    (panel,) = panels([one], 1)
    made = drawn(panel, Window(0, 41, 4), 4)
    assert (panel.low, panel.high) == (0.0, 100.0)
    assert [line.strip() != "" for line in made.lines] == [True] * 4
    assert made.lines[0][-1] != " " and made.lines[-1][0] != " " and made.lines[0][0] == " "


@pytest.mark.parametrize(("values", "unit", "low", "high"), [
    ([95.0, 97.0], "%", 0.0, 100.0), ([1155.0, 1410.0], "MHz", 1100.0, 1500.0), ([345.0, 1980.0], "MHz", 0.0, 2000.0),
    ([5.0, 5.0], "W", 5.0, 5.5), ([0.0, 0.0], "B", 0.0, 1.0), ([-3.0, 3.0], "", -4.0, 4.0),
])
def test_an_axis_has_round_ends(values: list[float], unit: str, low: float, high: float) -> None:
    (panel,) = panels([series(values, unit)], 1)
    assert panel.low == pytest.approx(low) and panel.high >= max(values)
    if high is not None and values[0] != values[1]:
        assert panel.high == pytest.approx(high)


def test_an_axis_says_its_round_values_with_their_unit() -> None:
    (panel,) = panels([series([0.0, 2000.0])], 1)
    assert [label.strip(" ┤│") for label in axis_labels(panel, 9)] == [
        "2,000 MHz", "", "1,500 MHz", "", "1,000 MHz", "", "500 MHz", "", "0 MHz"]
    assert [label.strip(" ┤│") for label in axis_labels(panel, 5)] == [
        "2,000 MHz", "", "1,000 MHz", "", "0 MHz"]


def test_counters_of_one_unit_share_an_axis_and_letters_tell_them_apart() -> None:
    both = [series([1.0, 2.0], "W", "a"), series([8.0, 9.0], "W", "b"), series([5.0, 6.0], "MHz", "c")]
    first, second = panels(both, 4)
    assert [one.key.metric for one in first.series] == ["a", "b"] and second.unit == "MHz"
    made = drawn(first, Window(0, 11, 20), 6)
    assert set("".join(made.ends)) == {"a", "b"} == set(LETTERS[:2])
    assert set(np.unique(made.owners).tolist()) == {NOBODY, 0, 1}


def test_samples_without_times_stand_over_their_numbers() -> None:
    one = series([1.0, 2.0, 3.0], step=SAMPLE, timed=False)
    window = Window(*extent([one]), 60)
    assert ruler(window, False).split() == ["╵#0", "╵#1"]
    assert place_text(2 * SAMPLE, window, False) == "#2"


def test_an_export_has_the_plots_above_the_rows() -> None:
    samples = [
        (at * 10**9, "power.draw", f"GPU {gpu}", 100.0 + 50 * gpu + at, "W") for at in range(20) for gpu in (0, 1)
    ]
    text = render(ask(view("metrics"), (run_of(*samples),), Options()), "md").decode()
    assert "a power.draw GPU 0   b power.draw GPU 1" in text and "╵5 s" in text and "over 19.00 s" in text
    assert text.index("```text") < text.index("| metric |")
    assert any("\u2800" < letter <= "\u28ff" for letter in text)


def test_what_never_moved_is_not_worth_a_plot() -> None:
    flat = [(at, "total", "GPU 0", 5.0, "B") for at in range(5)]
    assert ask(view("metrics"), (run_of(*flat),), Options()).picture == ()
