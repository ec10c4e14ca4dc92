"""The SQL view: a prompt that completes and remembers, and a result that is a list like any other."""

from __future__ import annotations

from app_runs import Shelf, app_on, press, screen_text, settled, small_run
from runs import run_of, samples
from textual.pilot import Pilot

from warplens.tui.app.app import WarplensApp
from warplens.tui.session import resume


async def typed(pilot: Pilot[None], text: str, *keys: str) -> None:
    """Letters, then keys."""
    app = pilot.app
    assert isinstance(app, WarplensApp)
    app.main.prompt._input.insert_text_at_cursor(text)
    await press(pilot, *keys)
    await settled(pilot)


async def test_a_query_shows_its_result_which_filters_and_sorts() -> None:
    app = app_on("run", shelf=Shelf(run=small_run()), view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "0")
        await settled(pilot)
        assert "Tables: kernels" in screen_text(app) and app.main.prompt.display
        await typed(pilot, "select kind, count(*) as n from kernels group by kind", "enter")
        assert not app.main.prompt.display and "3 of 3" in screen_text(app)
        await press(pilot, "f")
        await typed(pilot, "n>50", "enter")
        assert "1 of 3" in screen_text(app)


async def test_a_run_of_counters_is_offered_its_own_table_in_a_narrow_terminal() -> None:
    counters = run_of(metrics=samples("sm_clock", "GPU 0", (0, 1.0), unit="MHz"))
    app = app_on("run", shelf=Shelf(run=counters), view="sql")
    async with app.run_test(size=(60, 24)) as pilot:
        await settled(pilot)
        shown = screen_text(app)
        assert "Tables: metrics." in shown and "select * from metrics limit 10" in shown
        assert "Overview" not in shown and "Cycles" not in shown  # they could not answer


async def test_what_is_wrong_is_said_under_the_result_before_and_the_prompt_stays() -> None:
    app = app_on("run", shelf=Shelf(run=small_run()), view="sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await typed(pilot, "select 41 + 1 as answer", "enter")
        await press(pilot, "0")
        assert app.main.prompt._input.value == "select 41 + 1 as answer"
        await press(pilot, "ctrl+u")
        await typed(pilot, "select * from kernle", "enter")
        shown = screen_text(app)
        assert "There is no table kernle (did you mean kernels?)" in shown and "answer" in shown
        assert app.main.prompt.display
        await press(pilot, "escape")
        await settled(pilot)
        assert "kernle" not in screen_text(app) and app.session.query == "select 41 + 1 as answer"


async def test_tab_completes_and_says_what_is_possible() -> None:
    app = app_on("run", shelf=Shelf(run=small_run()), view="sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await typed(pilot, "sel", "tab")
        assert app.main.prompt._input.value == "select "
        await typed(pilot, "dur", "tab")
        await typed(pilot, "from ke", "tab")
        assert app.main.prompt._input.value == "select dur_ns from kernel"
        assert "kernels kernel_stats" in screen_text(app)


async def test_tab_completes_while_the_run_is_read_again() -> None:
    app = app_on("run", shelf=Shelf(run=small_run()), view="sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        app.session.inputs[0].traces = ()
        await typed(pilot, "select * from ker", "tab")
        assert app.main.prompt._input.value == "select * from kernel"


async def test_arrows_go_through_what_was_typed_in_this_session_and_before() -> None:
    resume.keep_query("select 1 as before")
    app = app_on("run", shelf=Shelf(run=small_run()), view="sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await typed(pilot, "select 2 as now", "enter")
        await press(pilot, "0", "ctrl+u")
        await typed(pilot, "draft", "up")
        assert app.main.prompt._input.value == "select 2 as now"
        await press(pilot, "up", "up")
        assert app.main.prompt._input.value == "select 1 as before"
        await press(pilot, "down", "down")
        assert app.main.prompt._input.value == "draft"
    assert resume.queries() == ["select 1 as before", "select 2 as now"]


async def test_two_runs_and_the_cycle_in_scope() -> None:
    app = app_on("a", "b", shelf=Shelf(a=small_run("a"), b=small_run("b")), view="sql")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await typed(pilot, "select (select count(*) from a_kernels) as a, (select count(*) from b_kernels) as b",
                    "enter")
        table = app.main.pane.table
        assert table is not None and table.window(0, 1) == [(108, 108)]
        app.session.scope(2, None)
        app.main.inputs_changed()
        await settled(pilot)
        table = app.main.pane.table
        assert table is not None and table.window(0, 1) == [(18, 108)] and "cycle 2 of A" in screen_text(app)
