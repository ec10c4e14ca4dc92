"""A recording on one time axis: what is drawn is as long as it was."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warplens.tui.widgets.answer_lines import answer, left_out
from warplens.tui.widgets.time_axis import load_text, phase_line, resampled, step_bar


@given(st.lists(st.floats(0, 1), min_size=1, max_size=100), st.integers(1, 200))
def test_other_columns_hold_the_same_work(busy: list[float], width: int) -> None:
    drawn = resampled(busy, width)
    assert len(drawn) == width
    assert abs(sum(drawn) / width - sum(busy) / len(busy)) < 1e-6


def test_no_work_at_all_is_a_dot_and_a_little_is_a_low_block() -> None:
    assert load_text([0.0, 0.01, 0.5, 1.0], 4) == "·▁▄█"


def test_phases_begin_where_they_begin_and_name_the_steps_once() -> None:
    phases = [{"kind": "start-up", "label": "", "from_ns": 0, "to_ns": 200},
              {"kind": "step", "label": "3", "from_ns": 200, "to_ns": 600},
              {"kind": "step", "label": "4", "from_ns": 600, "to_ns": 1000}]
    line = phase_line(phases, 1000, 60, 6, "phase", "step").plain
    assert line.startswith("phase ├ start-up ") and len(line) == 66
    assert line[6 + 12 :].startswith("├ step 3 ──") and line[6 + 36 :].startswith("├ 4 ──")


def test_a_bar_on_a_scale_is_as_long_as_its_share_and_made_of_letters() -> None:
    assert step_bar([("g", "gemm", 30), ("I", "python", 20)], 10, 100).plain == "gggII"


LINES = [{"kind": kind, "mark": "✗", "long": f"{kind} {'long ' * 20}".strip(), "short": f"{kind} short"}
         for kind in ("verdict", "cause", "finding", "data")]


def test_lines_that_do_not_fit_are_counted_by_kind() -> None:
    drawn, left = answer(LINES, 40, 2, wraps=False)
    assert [line.plain for line in drawn] == ["✗ verdict short", "✗ cause short"]
    assert "".join(text for text, _ in left_out(left)) == "▾ 2 more (w): 1 finding, 1 data"


def test_verdict_and_cause_never_wrap_and_others_do_where_there_is_room() -> None:
    drawn, left = answer(LINES, 60, 8, wraps=True)
    assert not left and drawn[0].plain == "✗ verdict short" and drawn[2].plain.startswith("✗ finding long")
