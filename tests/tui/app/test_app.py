"""The app opens runs, shows views, and every key does what the help says."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from app_runs import app_on, press, screen_text, settled
from textual.command import CommandPalette
from textual.screen import Screen

from warplens.tui.app.app import WarplensApp


async def test_one_run_opens_and_shows_its_kernels() -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        shown = screen_text(app)
        assert "▐3 Kernels▌" in shown
        assert "softmax_warp_forward" in shown, shown
        assert "6 of 6 kernels, 100% of time" in shown


async def test_a_signal_to_the_tests_does_not_quietly_end_the_app_of_one() -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with app_on("a").run_test() as pilot:
        await settled(pilot)
        assert signal.getsignal(signal.SIGTERM) is before


async def test_two_runs_stand_side_by_side() -> None:
    app = app_on("a", "b", view="cycles")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        shown = screen_text(app)
        assert "A 1" in shown and "B 1" in shown and "waiting" in shown
        assert "normal → abnormal" in shown or "normal (108 launches) → abnormal" in shown
        await press(pilot, "3")
        assert "▐3 Kernels▌" in screen_text(app)


async def test_idle_shows_its_causes_above_the_gaps_and_enter_the_launches_around() -> None:
    app = app_on("a", view="idle")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        shown = screen_text(app)
        assert "▐8 Idle▌" in shown and "U unknown" in shown, shown
        assert "unknown" in shown and "gaps" in shown
        await press(pilot, "enter")
        assert "Launches around it" in screen_text(app)


async def test_tabs_are_those_of_views_with_something_to_show() -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(160, 40)) as pilot:
        await settled(pilot)
        assert "3 Kernels" in tab_line(app) and "7 Diff" not in tab_line(app)
        await press(pilot, "7")  # the key works all the same, and says what is missing
        assert "7 Diff" in tab_line(app) and "A diff needs two runs" in screen_text(app)
        await press(pilot, "3")
        assert "7 Diff" not in tab_line(app)


def tab_line(app: WarplensApp) -> str:
    return screen_text(app).splitlines()[1]


@pytest.mark.parametrize("width", [1, 2, 3])
async def test_a_list_without_room_for_any_column_is_blank(width: int) -> None:
    async with app_on("a", "b", view="ranks").run_test(size=(width, 20)) as pilot:
        for view in "7", "2", "4", "8", "0":
            await settled(pilot)
            await press(pilot, view)
            assert pilot.app.export_screenshot()


async def test_a_palette_that_is_closed_twice_takes_no_other_screen_with_it() -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "colon")
        palette = app.screen
        assert palette is not app.main
        palette.dismiss()
        palette.dismiss()  # Enter twice, before the first was heard
        await settled(pilot)
        assert app.screen is app.main


async def test_commands_that_reach_a_palette_after_it_closed_are_dropped() -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "colon")
        palette: Any = app.screen
        await palette.query("*").remove()
        palette._gather_commands("view")
        await settled(pilot)
        assert app.is_running and app._exception is None


async def test_the_palette_opens_once_even_below_another_screen() -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        app.action_command_palette()
        await settled(pilot)
        app.push_screen(Screen())
        app.action_command_palette()
        await settled(pilot)
        assert sum(isinstance(screen, CommandPalette) for screen in app.screen_stack) == 1


async def test_a_view_that_is_asked_for_while_the_app_ends_is_not_opened() -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        main = app.main
        attached = type(main.panes).is_attached
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(main.panes), "is_attached", property(lambda self: False))
            main.open_view("cycles")
        assert attached is type(main.panes).is_attached and app.session.current == "kernels"
