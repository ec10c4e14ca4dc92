"""The list: what it shows of a table, where the cursor is after anything, and that hostile names stay text."""

from __future__ import annotations

import unicodedata

import pytest
from list_app import HOSTILE, ListApp, kernels
from rich.cells import cell_len
from textual.pilot import Pilot

from warplens.analysis.table.filters import Filter


def lines(app: ListApp) -> list[str]:
    return ["".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()]


def inside(app: ListApp) -> list[str]:
    """The header and the rows, without the border."""
    return [line[1:-2] for line in lines(app)[1:-1]]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60), (40, 12), (10, 3)])
async def test_every_line_is_exactly_as_wide_as_the_screen(size: tuple[int, int]) -> None:
    app = ListApp(kernels(100, [*HOSTILE, "x" * 1_000_000]))
    async with app.run_test(size=size) as pilot:
        await pilot.press("l", "l", "j", "l", "l", "l", "l", "l", "l", "l", "space", "G")
        assert [cell_len(line) for line in lines(app)] == [size[0]] * size[1]


async def test_hostile_names_are_shown_and_do_nothing() -> None:
    app = ListApp(kernels(len(HOSTILE), HOSTILE))
    async with app.run_test(size=(120, 40)):
        shown = "\n".join(lines(app))
        assert "[red]markup[/red]" in shown and "[/nope]" in shown and "[@click=app.bell]x[/]" in shown
        assert not [char for char in shown if char != "\n" and unicodedata.category(char) in ("Cc", "Cf")]


async def keys(pilot: Pilot[None], *names: str) -> None:
    await pilot.press(*names)
    await pilot.pause()


async def test_movement() -> None:
    app = ListApp(kernels(1000))
    async with app.run_test(size=(80, 24)) as pilot:
        for names, position in (
            (["j", "down"], 2), (["k", "up", "k"], 0), (["pagedown"], 21), (["pageup"], 0), (["ctrl+d"], 10),
            (["ctrl+u"], 0), (["G"], 999), (["g"], 0), (["end"], 999), (["home"], 0),
        ):
            await keys(pilot, *names)
            assert app.list.cursor == position, names


async def test_the_cursor_stays_on_its_row_through_sorts_and_filters() -> None:
    app = ListApp(kernels(1000))
    async with app.run_test(size=(80, 24)) as pilot:
        await keys(pilot, *["j"] * 7)
        row = app.list.row(app.list.cursor)
        app.list.sort_by("p50_ns")
        assert app.list.row(app.list.cursor) == row
        app.list.sort_by("name")
        assert app.list.row(app.list.cursor) == row and app.list.cursor > 7
        table = app.list.table
        app.list.show(table.filtered(Filter("nccl")))
        assert app.list.row(app.list.cursor) != row
        app.list.show(table)
        assert app.list.row(app.list.cursor) == row


async def test_a_row_is_drawn_anew_only_when_it_looks_otherwise() -> None:
    app = ListApp(kernels(100))
    async with app.run_test(size=(80, 24)) as pilot:
        await keys(pilot, "j")
        first, cursor, other = (app.list.render_line(y) for y in (2, 3, 6))
        assert app.list.render_line(6) is other
        await keys(pilot, "j")
        assert app.list.render_line(6) is other and app.list.render_line(2) is first
        assert app.list.render_line(3) is not cursor
        app.list.search("nccl")
        assert app.list.render_line(6) is not other
        drawn = lines(app)
        app.list._page = None
        app.list.refresh()
        await pilot.pause()
        assert lines(app) == drawn


async def test_marks_belong_to_rows() -> None:
    app = ListApp(kernels(100))
    async with app.run_test(size=(80, 24)) as pilot:
        await keys(pilot, "j", "space", "space")
        assert app.list.marks == {1, 2} and app.list.cursor == 3
        app.list.sort_by("total_ns", descending=False)
        await keys(pilot, "G")
        await pilot.pause()
        assert [line[:1] for line in inside(app)[-4:]] == [" ", "●", "●", "▌"]
        await keys(pilot, "k", "space")
        assert app.list.marks == {2}


async def test_search_goes_to_the_match_and_shows_it() -> None:
    app = ListApp(kernels(100))
    async with app.run_test(size=(120, 24)) as pilot:
        assert app.list.search("allreduce") and app.list.cursor == 5
        await keys(pilot, "n")
        assert app.list.cursor == 11
        await keys(pilot, "N", "N")
        assert app.list.cursor == 95
        assert not app.list.search("no such kernel")
        assert app.list.search("")is False and app.list.needle == ""


async def test_keys_and_clicks_sort() -> None:
    app = ListApp(kernels(100))
    async with app.run_test(size=(120, 24)) as pilot:
        await keys(pilot, "r")
        assert app.list.table is not None and app.list.table.sorted_by == "total_ns" and app.list.table.descending
        app.list.show(kernels(100))
        await keys(pilot, "greater_than_sign")
        assert app.list.table.sorted_by == "name" and not app.list.table.descending
        await keys(pilot, "greater_than_sign", "r")
        assert (app.list.table.sorted_by, app.list.table.descending) == ("total_ns", False)
        assert "total↑" in inside(app)[0]
        x = inside(app)[0].index("p50")
        await pilot.click("#list", offset=(x + 1, 1))
        assert (app.list.table.sorted_by, app.list.table.descending) == ("p50_ns", True)
        await pilot.click("#list", offset=(10, 5))
        assert app.list.cursor == app.list._top + 3


async def test_columns_go_by_order_and_come_back_by_scrolling() -> None:
    app = ListApp(kernels(100))
    async with app.run_test(size=(60, 10)) as pilot:
        assert "bound" not in inside(app)[0] and "kernel" in inside(app)[0] and "total" in inside(app)[0]
        await keys(pilot, *["l"] * 10)
        assert "bound" in inside(app)[0] and "kernel" in inside(app)[0] and "‹" in inside(app)[0]
        await keys(pilot, *["h"] * 9)
        assert "bound" not in inside(app)[0] and "total" in inside(app)[0]


@pytest.mark.parametrize("width", range(16, 81, 4))
async def test_no_number_is_cut(width: int) -> None:
    app = ListApp(kernels(100, ["x" * 60]))
    async with app.run_test(size=(width, 10)):
        assert not [line for line in inside(app)[1:] if "…" in line.replace("x…x", "")]


async def test_without_box_and_block_glyphs() -> None:
    app = ListApp(kernels(100), ascii_only=True)
    async with app.run_test(size=(120, 24)):
        assert all(line.isascii() for line in lines(app))


async def test_an_empty_table_takes_every_key() -> None:
    app = ListApp(kernels(10).filtered(Filter("no such kernel")))
    async with app.run_test(size=(80, 24)) as pilot:
        await keys(pilot, "j", "G", "pagedown", "space", "enter", "n", "r", "l", "greater_than_sign", "k", "g")
        assert app.list.cursor == 0


async def test_a_list_that_was_hidden_comes_back_with_its_first_row_in_sight() -> None:
    async with ListApp(kernels(100)).run_test(size=(120, 40)) as pilot:
        rows = pilot.app.list  # type: ignore[attr-defined]
        await pilot.pause()
        rows.go(20)
        rows.display = False
        await pilot.pause()
        rows.show(rows.table)
        rows.display = True
        await pilot.pause()
        assert rows.cursor == 20 and rows._top == 0
