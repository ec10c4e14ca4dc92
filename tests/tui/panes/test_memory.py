"""The memory view: what holds the device's memory over time, in letters that stack up to the whole."""

from __future__ import annotations

from warplens.tui.panes.memory import chart, place


def test_every_column_of_the_chart_is_as_high_as_what_is_held_and_in_the_order_of_the_list() -> None:
    lines = [line.plain for line in chart([[4 << 30, 4 << 30], [0, 4 << 30]], 4, 40, 10_000_000)]
    assert lines.pop().startswith("       0 ╵0 ms")
    assert {len(line) for line in lines} == {40} and lines[0].startswith(" 8.0 GiB ")
    left, right = ([line[at] for line in lines] for at in (10, 39))
    assert left == [" ", " ", "b", "b"] and right == ["m", "m", "b", "b"]


def test_a_place_is_named_without_its_folders() -> None:
    assert place("/home/me/train/optimizers.py:82 step") == "optimizers.py:82 step"
    assert place(None) == "not recorded"
