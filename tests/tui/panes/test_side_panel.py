"""Details beside the list: where there is room they follow the cursor, and they never hold it up."""

from __future__ import annotations

from typing import Any

import pytest
from app_runs import app_on, press, said, screen_text, settled
from textual.content import Content

from warplens.analysis.contract.sections import Detail, Section
from warplens.analysis.details import row_details
from warplens.tui.app.app import WarplensApp
from warplens.tui.panes import side_panel
from warplens.tui.panes.side_panel import SidePanel, columns_of
from warplens.tui.widgets.sections import grid


def details(app: WarplensApp) -> SidePanel:
    pane = app.main.pane
    assert pane is not None
    return pane.side_panel


def text(app: WarplensApp) -> str:
    drawn = details(app).render()
    assert isinstance(drawn, Content)
    return drawn.plain


@pytest.mark.parametrize("size", [(120, 40), (160, 24), (200, 60)])
async def test_details_follow_the_cursor_where_there_is_room(size: tuple[int, int]) -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        for _ in range(2):
            pane = app.main.pane
            assert pane is not None
            assert str(pane.row()["name"])[:12] in text(app) and "Latency" in text(app)
            await press(pilot, "j")
        assert details(app).has_class("right" if size == (160, 24) else "below"), "below a short list"


async def test_a_small_terminal_stays_as_it_is() -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(80, 20)) as pilot:
        await settled(pilot)
        before = screen_text(app)
        assert not details(app).shown
        await press(pilot, "D", "D")
        assert screen_text(app).splitlines()[:20] == before.splitlines()[:20] and "No room" in said(app)


async def test_a_list_that_fills_the_screen_leaves_no_room_below_it() -> None:
    app = app_on("a", view="launches")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert not details(app).shown
        await press(pilot, "f", *"softmax", "enter")
        assert details(app).shown, "18 of 108 rows are left"
        await press(pilot, "escape")
        assert not details(app).shown


async def test_a_key_that_is_held_down_asks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, asked = [], []

    def glance_of(*args: Any) -> Any:
        looked.append(args)
        return lambda table, position: asked.append(position) or Detail((Section(f"row {position}"),))

    monkeypatch.setattr(row_details, "glance_of", glance_of)
    app = app_on("a", view="launches")
    async with app.run_test(size=(160, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "D")
        asked.clear()
        monkeypatch.setattr(side_panel, "REST", 3600.0)
        await pilot.press("D", *"jjjjjjjj")
        assert asked == [] and details(app).runner.busy
        monkeypatch.setattr(side_panel, "REST", 0.0)
        await press(pilot, "j")
        assert asked == [9] and text(app).startswith("╭─ row 9 ") and len(looked) == 1


async def test_details_that_fail_say_so_and_nothing_else_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    def glance_of(*args: Any) -> Any:
        raise ValueError("no \x1b[31m such [red]thing")

    monkeypatch.setattr(row_details, "glance_of", glance_of)
    app = app_on("a", view="kernels")
    async with app.run_test(size=(160, 40)) as pilot:
        await settled(pilot)
        assert "ValueError: no ␛[31m such [red]thing" in text(app)
        await press(pilot, "j")
        pane = app.main.pane
        assert pane is not None and pane.rows.cursor == 1


async def test_other_rows_are_not_spoken_of_with_the_old_ones_details() -> None:
    app = app_on("a", "b", view="kernels")
    async with app.run_test(size=(160, 40)) as pilot:
        await settled(pilot)
        assert " A " in text(app) and " B " in text(app), "a row of each run"
        await press(pilot, "x")
        assert " B " not in text(app)


async def test_every_view_has_something_to_say_of_its_rows() -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(160, 50)) as pilot:
        await settled(pilot)
        for key, words in (("2", "median of"), ("3", "Latency"), ("4", "This launch"), ("8", "This gap")):
            await press(pilot, key)
            assert words in text(app)


async def test_the_list_has_the_width_back_when_maximised() -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(160, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "z")
        pane = app.main.pane
        assert pane is not None and pane.rows.size.width == 160


def test_sections_stand_next_to_one_another_before_any_is_cut() -> None:
    sections = [Section(title, tuple((f"{title}{n}", "value") for n in range(5))) for title in ("a", "b", "c")]
    narrow = [line.plain for line in columns_of(sections, 60, 8)]
    wide = [line.plain for line in columns_of(sections, 180, 8)]
    assert any("a4" in line for line in narrow) and not any("b" in line for line in narrow), "no title alone"
    assert any("a4" in line and "b4" in line and "c4" in line for line in wide)


def test_a_table_gives_up_words_and_never_figures_or_pictures() -> None:
    rows = (("aten::convolution_overrideable_backward", "█████████···············", "1,234,567", "–"),)
    lines = [line.plain for line in grid(("operator", "over the gap", "count", "nothing"), rows, 60)]
    assert "█████████···············" in lines[1] and "1,234,567" in lines[1] and "…" in lines[1]
    assert "nothing" not in lines[0] and max(map(len, lines)) <= 60


