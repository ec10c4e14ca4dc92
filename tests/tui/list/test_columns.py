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
