"""The history on the screen: what is drawn, what Enter opens, and the way back."""

from __future__ import annotations

import re

import pytest
from app_runs import Shelf, app_on, press, said, screen_text, settled, small_run
from history_runs import stepped, sums
from msgspec import structs

from warplens.analysis.contract.options import Options
from warplens.analysis.history.runs import history_trace
from warplens.library import table
from warplens.tui.panes.history import HistoryPane

SIZE = (120, 40)


def _app(at: int = 25):
    runs = stepped(40, "gemm_c", 1.1, at)
    nights = {f"/runs/night-{number:03}.json": small_run(f"night-{number:03}") for number in (3, at - 1, at)}
    return app_on("40 runs", shelf=Shelf(**{"40 runs": history_trace(runs)}, **nights))


async def test_a_history_opens_in_its_view_with_its_steps_marked() -> None:
    app = _app()
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        text = screen_text(app)
        assert app.session.current == "history" and "gemm_c is" in text
        assert "steps   " + "·" * 25 + "▲" + "·" * 14 in text


async def test_in_the_middle_of_a_resize_it_is_drawn_in_any_width() -> None:
    """The drawing gets its new width before the pane has its new size."""
    app = _app()
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        assert isinstance(app.main.pane, HistoryPane)
        assert ["▲" in app.main.pane.picture(width).plain for width in (3, 12, 20, 120)] == [False, False, True, True]


async def test_enter_opens_the_diff_of_the_runs_around_the_step_and_backspace_returns() -> None:
    app = _app()
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        await press(pilot, "enter")
        assert [run.path for run in app.session.inputs] == ["/runs/night-024.json", "/runs/night-025.json"]
        assert app.session.current == "diff"
        await press(pilot, "backspace")
        assert app.session.current == "history" and "gemm_c is" in screen_text(app)
        await press(pilot, "backspace")  # there is nothing before it
        assert app.session.current == "history"


async def test_a_recording_that_a_later_night_replaced_is_not_opened_in_its_place() -> None:
    runs = [structs.replace(run, source="/runs/night.json") for run in stepped(40, "gemm_c", 1.1, 25)]
    app = app_on("40 runs", shelf=Shelf(**{"40 runs": history_trace(runs), "/runs/night.json": small_run("night")}))
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        await press(pilot, "enter")
        assert len(app.session.inputs) == 1 and "A later run overwrote /runs/night.json" in said(app)
        await press(pilot, "s", "end", "t")
        assert [run.path for run in app.session.inputs] == ["/runs/night.json"]  # the last one is there


async def test_enter_on_a_series_without_steps_shows_its_details() -> None:
    app = _app()
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        await press(pilot, "end", "enter")
        assert len(app.session.inputs) == 1 and "Last runs" in screen_text(app)


async def test_s_lists_the_runs_each_with_a_page_and_t_opens_one() -> None:
    app = _app()
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        assert "s runs" in screen_text(app) and "open run" not in screen_text(app)
        await press(pilot, "s", "down", "down", "down")
        text = screen_text(app)
        assert "night-003" in text and "s series" in text and "t open run" in text
        await press(pilot, "enter")
        assert "Off their level in this run" in screen_text(app)
        await press(pilot, "escape", "t")
        assert [run.path for run in app.session.inputs] == ["/runs/night-003.json"]


@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_a_small_terminal_keeps_series_and_steps(size: tuple[int, int]) -> None:
    app = _app()
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        assert "gemm_c" in screen_text(app) and "@26" in screen_text(app)


async def test_long_names_leave_room_for_the_steps_and_the_sentence_names_the_series_as_the_list_does() -> None:
    """The picture of 14 runs took 40 cells, and a step read "+…"; the sentence fitted three kernels."""
    names = {f"ampere_bf16_s16816gemm_bf16_64x64_{form}_f2f_stages_64x{stages}_tn": 5e6 - stages for form, stages in (
        ("ldg8", 5), ("ldg8", 6), ("sliced1x2_ldg8", 6))}
    slow = next(iter(names))
    nights = [sums(number, {slow: 1.12 if number >= 8 else 1.0}, kernels=names) for number in range(14)]
    app = app_on("14 runs", shelf=Shelf(**{"14 runs": history_trace(nights)}))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        text = screen_text(app)
        assert "gemm bf16 64x64 tn ·64x5 is 1" in text
        assert re.search(r"▁▁▁.*\+1\d\.\d% @9", text)


async def test_a_run_without_cycles_has_none_and_its_times_are_of_the_recording() -> None:
    runs = [structs.replace(run, cycle_source=None) for run in stepped(9, "gemm_c", 1.0, 5)]
    app = app_on("9 runs", shelf=Shelf(**{"9 runs": history_trace(runs)}))
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        await press(pilot, "enter")
        assert "time per cycle" not in screen_text(app)
        await press(pilot, "escape", "s")
        assert re.search("cycles +none", screen_text(app))
        assert table("history", (history_trace(runs),), Options()).facts["runs"][0]["cycles"] == 0
