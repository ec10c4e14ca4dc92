"""What pictures in text must not get wrong: bars as long as their numbers, marks that are told apart."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warplens.tui.panes.cycles_strip import Bar, strip
from warplens.tui.widgets.drawing import SEAM, stacked

SIZES = st.lists(st.floats(0.0, 1e9), min_size=1, max_size=9).filter(any)


@given(SIZES, st.integers(8, 120))
def test_a_stacked_bar_is_as_long_as_its_parts_say(sizes: list[float], width: int) -> None:
    bar = stacked([(f"part {at}", "gemm", size) for at, size in enumerate(sizes)], width)
    assert bar.cell_length == width
    assert bar.plain.count(SEAM) <= len(sizes) - 1
    begins = [at for at, sign in enumerate(bar.plain) if sign == SEAM]
    whole, ends = sum(sizes), [sum(sizes[: at + 1]) for at in range(len(sizes))]
    assert all(any(abs(at - end / whole * width) <= 0.5 for end in ends) for at in begins)


def test_the_name_of_a_part_that_fills_it_is_shown() -> None:
    assert stacked([("ab", "gemm", 4.0), ("c", "norm", 1.0)], 10).plain == f" ab 80% {SEAM}c"


def test_cycles_of_one_length_are_as_tall_whatever_is_known_of_them() -> None:
    sides = [[Bar(1, 750.0, None, False), Bar(2, 750.0, 300.0, False), Bar(3, 1000.0, 300.0, True)]]
    lines = [line.plain[9:] for line in strip(sides, 80, 14)]
    tops = [next(at for at, line in enumerate(lines) if len(line) > place and line[place] not in " ▲")
            for place in (0, 5)]
    assert tops[0] == tops[1]


def test_a_busy_time_shorter_than_a_line_is_seen() -> None:
    lines = strip([[Bar(1, 750.0, 40.0, False), Bar(2, 750.0, 0.0, False)]], 80, 14)
    busy, idle = lines[-2].plain[9:].split()
    assert set(busy) <= set("▁▂▃▄▅▆▇") and set(idle) == {"▓"}
