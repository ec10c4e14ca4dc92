"""Which columns a list of a given width shows."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from warplens.analysis.contract.column import Column
from warplens.analysis.kernels.columns import PAIR_COLUMNS
from warplens.analysis.views import view
from warplens.tui.list.columns import arrange

RANGES = tuple(one for one in view("ranges").pair_columns if one.per != "recording")


@pytest.mark.parametrize(("columns", "least"), [(PAIR_COLUMNS, 40), (RANGES, 76)], ids=["kernels", "ranges"])
def test_a_value_of_one_run_has_that_of_the_other_or_the_difference_beside_it(
    columns: tuple[Column, ...], least: int
) -> None:
    seen = set[str]()
    for width in range(least, 240):
        placed = arrange(columns, width, 3, None, lambda column: cell_len(column.header) + 30).placed
        shown = {one.column.name for one in placed}
        seen |= shown
        for name in [one.column.name for one in placed if not one.column.bar]:
            base = name.removesuffix("_a").removesuffix("_b")
            if name != base and any(one.name == f"{base}_delta" or (one.name != name and one.name[:-2] == base)
                                    for one in columns):
                assert shown & ({f"{base}_a", f"{base}_b", f"{base}_delta"} - {name}), (width, name)
    assert columns is RANGES or {"trend_a", "trend_b"} <= seen


@pytest.mark.parametrize("longest", [(9, 30, 12), (40, 8, 25), (60, 60, 3)])
def test_spare_cells_go_to_texts_that_are_cut_and_then_to_columns_that_fit(longest: tuple[int, int, int]) -> None:
    columns = (
        Column("name", "name", "text", "", width=30, order=0, elastic=True, role="name"),
        Column("ns", "total", "ns", "", width=10, order=0), Column("op", "op", "text", "", width=24, order=1),
        Column("where", "where", "text", "", width=12, order=2),
        Column("count", "count", "count", "", width=7, order=3),
    )
    widest = dict(zip(("name", "op", "where"), longest, strict=True))
    for width in range(40, 180):
        layout = arrange(columns, width, 3, None, lambda column: widest.get(column.name, 0))
        spare = width - 1 - max(one.x + one.width for one in layout.placed)
        lacks = {one.column.name: max(5, widest[one.column.name]) - one.width
                 for one in layout.placed if one.column.name in widest}
        assert max(lacks.values()) <= 0 or (spare <= 0 and min(lacks.values()) >= 0), (width, lacks)
        hidden = set(columns) - {one.column for one in layout.placed}
        assert all(max(widest.get(one.name, one.width), len(one.header)) + 1 > spare or one.unit == "text"
                   for one in hidden), (width, spare)
