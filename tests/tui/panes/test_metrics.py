"""Metrics in the app: the plots follow the list, marks share an axis, the cursor says what was read, and exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from app_runs import Shelf, app_on, counted, frame, press, screen_text, settled, small_run
from textual.pilot import Pilot

from warplens.tui.app.app import WarplensApp
from warplens.tui.panes.metrics.canvas import LEAST_NS, MetricsCanvas
from warplens.tui.panes.metrics.pane import MetricsPane


def shelf() -> Shelf:
    return Shelf(a=counted(), b=counted("abnormal", 1200.0), alone=counted("log", alone=True))


def pane(app: WarplensApp) -> MetricsPane:
    found = app.main.pane
    assert isinstance(found, MetricsPane)
    return found


def canvas(app: WarplensApp) -> MetricsCanvas:
    return pane(app).canvas


def plotted(app: WarplensApp) -> list[tuple[str, str | None, int]]:
    return [(one.key.metric, one.key.device, one.key.run) for one in canvas(app).series]


async def opened(pilot: Pilot[Any], *keys: str) -> WarplensApp:
    await settled(pilot)
    await press(pilot, *keys)
    app = pilot.app
    assert isinstance(app, WarplensApp)
    return app


async def test_the_plot_is_of_the_counter_under_the_cursor() -> None:
    async with app_on("a", shelf=shelf(), view="metrics").run_test(size=(120, 40)) as pilot:
        app = await opened(pilot)
        assert plotted(app) == [("fan", "GPU 0", 0)]
        await press(pilot, "j")
        assert plotted(app) == [("power", "GPU 0", 0)]
        assert " a power GPU 0 " in screen_text(app) and "300 W ┤" in screen_text(app)


async def test_marked_counters_stay_and_share_the_axis_of_their_unit() -> None:
    async with app_on("a", shelf=shelf(), view="metrics").run_test(size=(120, 40)) as pilot:
        app = await opened(pilot, "j", "j", "space")
        assert [metric for metric, *_ in plotted(app)] == ["sm_clock", "sm_clock"]
        text = screen_text(app)
        assert " a sm_clock GPU 1 " in text and " b sm_clock GPU 0 " in text and "2,000 MHz ┤" in text
        await press(pilot, "g", "j")
        assert "300 W ┤" in screen_text(app) and "2,000 MHz ┤" in screen_text(app), "a panel for each unit"


async def test_both_runs_lie_on_one_axis_and_x_takes_one() -> None:
    async with app_on("a", "b", shelf=shelf(), view="metrics").run_test(size=(120, 40)) as pilot:
        app = await opened(pilot)
        assert plotted(app) == [("sm_clock", "GPU 0", 0), ("sm_clock", "GPU 0", 1)]
        assert " A sm_clock GPU 0 " in screen_text(app) and " B sm_clock GPU 0 " in screen_text(app)
        await press(pilot, "x")
        assert {run for *_, run in plotted(app)} == {0} and pane(app).subject == "A"


async def test_the_cursor_says_what_was_read_there() -> None:
    async with app_on("a", shelf=shelf(), view="metrics").run_test(size=(120, 40)) as pilot:
        app = await opened(pilot, "j", "j", "tab")
        assert app.main.focused is canvas(app)
        await press(pilot, "home")
        assert "sm_clock GPU 0 1,980 MHz" in screen_text(app)
        await press(pilot, "end", "l")
        assert "sm_clock GPU 0 990 MHz" in screen_text(app)
        before = canvas(app).column
        await press(pilot, "h", "h")
        assert canvas(app).column == before - 2


async def test_zooming_keeps_the_moment_under_the_cursor() -> None:
    async with app_on("a", shelf=shelf(), view="metrics").run_test(size=(120, 40)) as pilot:
        app = await opened(pilot, "j", "j", "tab")
        plot = canvas(app)
        whole, moment = plot.window_ns, plot.moment
        await press(pilot, "+")
        assert plot.window_ns[1] - plot.window_ns[0] == (whole[1] - whole[0]) // 2
        assert abs(plot.moment - moment) < (whole[1] - whole[0]) // 50
        start = plot.window_ns[0]
        await press(pilot, "right")
        assert plot.window_ns[0] > start
        await press(pilot, "left", "left")
        assert plot.window_ns[0] < start
        await press(pilot, *"+" * 40)
        assert plot.window_ns[1] - plot.window_ns[0] == LEAST_NS
        await press(pilot, "-", "=")
        assert plot.window_ns == whole
        await press(pilot, "down")
        assert plotted(app) == [("sm_clock", "GPU 1", 0)] and plot.window_ns == whole, "the list moves below"


@pytest.mark.parametrize("key", ["enter", "g", "n", "N"])
async def test_keys_of_the_timeline_that_mean_nothing_here_do_nothing(key: str) -> None:
    async with app_on("a", shelf=shelf(), view="metrics").run_test(size=(120, 40)) as pilot:
        app = await opened(pilot, "j", "tab")
        before = screen_text(app)
        await press(pilot, key)
        assert screen_text(app) == before


async def test_cycles_stand_above_and_every_other_one_is_shaded() -> None:
    async with app_on("a", shelf=shelf(), view="metrics").run_test(size=(120, 40)) as pilot:
        app = await opened(pilot, "j")
        lines = screen_text(app).splitlines()
        assert any(line.strip("│ ").startswith("cycles ├") for line in lines)
        shaded = canvas(app)._shades()
        assert True in shaded and False in shaded


async def test_nothing_but_counters_opens_with_their_plots() -> None:
    async with app_on("alone", shelf=shelf()).run_test(size=(120, 40)) as pilot:
        app = await opened(pilot)
        assert app.session.current == "metrics" and canvas(app).series


async def test_what_has_no_room_is_counted() -> None:
    async with app_on("a", shelf=shelf(), view="metrics").run_test(size=(80, 24)) as pilot:
        app = await opened(pilot, "j", "space", "j")
        assert [metric for metric, *_ in plotted(app)] == ["sm_clock", "power"]
        assert "+1 hidden" in screen_text(app)


async def test_a_low_terminal_keeps_the_list() -> None:
    async with app_on("a", shelf=shelf(), view="metrics").run_test(size=(80, 20)) as pilot:
        app = await opened(pilot)
        assert not canvas(app).display and "sm_clock" in screen_text(app)


async def test_a_run_without_counters_says_so() -> None:
    async with app_on("a", view="metrics").run_test(size=(120, 40)) as pilot:
        app = await opened(pilot)
        assert "no samples of counters" in screen_text(app) and not canvas(app).display


async def test_the_export_has_the_picture_and_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with app_on("a", shelf=shelf(), view="metrics").run_test(size=(120, 40)) as pilot:
        await opened(pilot, "e")
        (made,) = tmp_path.glob("*.md")
        text = made.read_text()
        assert "a sm_clock GPU 0   b sm_clock GPU 1" in text and "| sm_clock |" in text.replace("`", "")


async def test_hostile_names_are_harmless_beside_their_lines() -> None:
    rows = [{"ts_ns": at, "metric": "[red]a\x1b[31m", "device": "\u202eGPU", "value": float(at), "unit": "\x07"}
            for at in range(9)]
    run = small_run().with_tables(metrics=frame("metrics", rows))
    assert isinstance(run.metrics, pl.LazyFrame)
    async with app_on("a", shelf=Shelf(a=run), view="metrics").run_test(size=(120, 40)) as pilot:
        text = screen_text(await opened(pilot))
        assert "\x1b" not in text and "\x07" not in text and "[red]a␛[31m" in text


async def test_the_mark_of_the_cursor_leaves_no_half_of_a_label() -> None:
    async with app_on("a", shelf=shelf(), view="metrics").run_test(size=(120, 40)) as pilot:
        app = await opened(pilot, "j", "tab", "home")
        labels = set(screen_text(app).split("▲")[1].split("\n")[0].replace("╵", " ").split("  "))
        for _ in range(30):
            await press(pilot, "right")
            before, after = next(line for line in screen_text(app).split("\n") if "▲" in line).split("▲")
            ruler = f"{before[before.index('  ', 9):]}  {after}".replace("╵", " ").replace("│", "")
            assert {one.strip() for one in ruler.split("  ")} <= {one.strip() for one in labels} | {""}, ruler
