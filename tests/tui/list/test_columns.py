"""Which columns a list of a given width shows."""

from __future__ import annotations

from rich.cells import cell_len

from warplens.analysis.kernels.columns import PAIR_COLUMNS
from warplens.tui.list.columns import arrange


def test_a_value_of_one_run_has_that_of_the_other_or_the_difference_beside_it() -> None:
    seen = set[str]()
    for width in range(40, 240):
        placed = arrange(PAIR_COLUMNS, width, 3, None, lambda column: cell_len(column.header) + 30).placed
        shown = {one.column.name for one in placed}
        seen |= shown
        for name in [one.column.name for one in placed if not one.column.bar]:
            base = name.removesuffix("_a").removesuffix("_b")
            if name != base and any(one.name == f"{base}_delta" or (one.name != name and one.name[:-2] == base)
                                    for one in PAIR_COLUMNS):
                assert shown & ({f"{base}_a", f"{base}_b", f"{base}_delta"} - {name}), (width, name)
    assert {"trend_a", "trend_b"} <= seen
