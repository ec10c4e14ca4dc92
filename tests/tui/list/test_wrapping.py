"""Rows of several lines: whole sentences where there is room, one item for the cursor, and nothing else moves."""

from __future__ import annotations

from typing import Any

import pytest
from app_runs import press, screen_text, settled
from demo_app import demo_app
from rich.cells import cell_len

from warplens.analysis.table.table import Table
from warplens.tui.list import row_painter
from warplens.tui.list.table_list import TableList
from warplens.tui.list.wrapping import wrapped


def lines_of(rows: TableList) -> list[str]:
    return ["".join(segment.text for segment in strip) for strip in rows._drawn(range(rows.size.height))]


async def test_every_line_is_as_wide_as_the_list_and_sentences_are_whole_where_there_is_room() -> None:
    app, whole_ones = demo_app("triage"), 0
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        rows = app.main.pane.rows  # type: ignore[union-attr]
        for size in ((80, 24), (60, 20), (200, 60), (120, 40)):
            before = rows.size
            await pilot.resize_terminal(*size)
            while rows.size == before:
                await settled(pilot)
            await settled(pilot)
            assert {cell_len(line) for line in lines_of(rows)} == {rows.size.width}
            assert rows.table is not None
            whole = wrapped(rows.table, rows._lines().layout)
            room = rows.size.height - 3
            if whole is not None and len(whole.spread) <= room:
                whole_ones += 1
                shown = " ".join(" ".join(lines_of(rows)).split())
                said = [str(rows.row(at)[4]) for at in range(len(rows.table))]  # type: ignore[index]
                assert "…" not in "".join(lines_of(rows)) and said[1].split()[-1] in shown
    assert whole_ones


async def test_the_cursor_goes_by_items_and_a_click_on_any_line_of_one_is_on_it() -> None:
    app = demo_app("triage")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        rows = app.main.pane.rows  # type: ignore[union-attr]
        page = rows._lines()
        two = next(at for at in range(len(rows.table or ())) if page.line_of(at + 1) - page.line_of(at) == 2)
        await press(pilot, *["j"] * (two + 1))
        assert rows.cursor == two + 1 and lines_of(rows)[2 + page.line_of(two + 1)].startswith("│▌")
        await pilot.click(TableList, offset=(30, 3 + page.line_of(two)))
        await settled(pilot)
        assert rows.cursor == two
        await press(pilot, "G")
        assert rows.cursor == len(rows.table or ()) - 1 and rows._top == 0
        assert "88% of the kernel time" in next(line for line in lines_of(rows) if line.startswith("│▌"))
        assert screen_text(app).count("Host-bound") >= 2


async def test_a_word_longer_than_its_column_is_cut_and_not_broken() -> None:
    app = demo_app("calls")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        rows = app.main.pane.rows  # type: ignore[union-attr]
        assert rows.table is not None and wrapped(rows.table, rows._lines().layout) is None


async def test_a_scrolled_list_that_fits_after_a_resize_is_drawn_from_its_first_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pages = list[tuple[int, int]]()

    class Page(row_painter.Page):
        def __init__(self, key: object, table: Table, top: int, height: int, *more: Any) -> None:
            super().__init__(key, table, top, height, *more)
            pages.append((top, len(table) - height))

    app = demo_app("triage")
    async with app.run_test(size=(80, 16)) as pilot:
        await settled(pilot)
        await press(pilot, "G")
        rows = app.main.pane.rows  # type: ignore[union-attr]
        assert rows._top > 0
        monkeypatch.setattr(row_painter, "Page", Page)
        await pilot.resize_terminal(100, 40)
        while rows.size.width == 80:
            await settled(pilot)
        assert rows._top == 0 and pages and all(top <= max(0, most) for top, most in pages)
