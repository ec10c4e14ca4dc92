"""The what-if view: a change that is typed, marked rows as one change, the critical path and its places."""

from __future__ import annotations

from app_runs import Shelf, app_on, press, screen_text, settled
from demo_app import run_of_the_demo
from textual.pilot import Pilot

from warplens.tui.app.app import WarplensApp
from warplens.tui.panes.whatif import WhatIfPane


def app() -> WarplensApp:
    return app_on("run", shelf=Shelf(run=run_of_the_demo("normal")), view="whatif")


async def typed(pilot: Pilot[None], text: str, *keys: str) -> None:
    """Letters at the prompt, then keys."""
    assert isinstance(pilot.app, WarplensApp)
    pilot.app.main.prompt._input.insert_text_at_cursor(text)
    await press(pilot, *keys)
    await settled(pilot)


async def test_a_typed_change_shows_the_old_and_the_new_cycle_until_it_is_taken_back() -> None:
    running = app()
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "a")
        await typed(pilot, "ho", "tab")
        assert running.main.prompt._input.value == "host:"
        await press(pilot, "ctrl+u", "space", "tab")
        assert "kernel:" in screen_text(running), "completes where nothing but a blank was typed"
        await press(pilot, "ctrl+u")
        await typed(pilot, "foo", "enter")
        assert "'foo' is not a change: type kernel:gemm=0.5 (KIND:REGEX=FACTOR) or graph" in screen_text(running)
        await press(pilot, "ctrl+u")
        await typed(pilot, "host=0.5 kernel=0", "enter")
        shown = screen_text(running)
        assert "Your change host=0.5  kernel=0" in shown and "cycle 751.0 ms → " in shown and "× as fast" in shown
        assert "--change host=0.5 --change kernel=0" in running.main.pane.command  # type: ignore[union-attr]
        await press(pilot, "a", "ctrl+u")
        await typed(pilot, "kernel:zzz=0.5", "enter")
        shown = screen_text(running)
        assert "= as long as without" in shown and "! kernel:zzz=0.5 matches nothing in" in shown
        await press(pilot, "a", "ctrl+u", "enter")
        await settled(pilot)
        assert "Your change" not in screen_text(running)


async def test_what_is_no_change_is_refused_and_the_prompt_stays() -> None:
    running = app()
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "a")
        await typed(pilot, "gpu:x=0", "enter")
        assert "is not a kind of change" in screen_text(running) and running.main.prompt.display


async def test_enter_says_why_and_on_marked_rows_replays_them_as_one() -> None:
    running = app()
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "enter")
        await settled(pilot)
        assert "Critical path of a cycle" in screen_text(running)
        await press(pilot, "escape", "space", "space", "enter")
        await settled(pilot)
        pane = running.main.pane
        assert isinstance(pane, WhatIfPane) and len(pane.changes) == 2
        assert "Your change " + "  ".join(pane.changes)[:30] in screen_text(running)


async def test_the_critical_path_lists_its_steps_and_their_places_are_reached() -> None:
    running = app()
    async with running.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "Critical path" in screen_text(running)
        await press(pilot, "s")
        await settled(pilot)
        assert "steps of the critical path" in screen_text(running) and "host code" in screen_text(running)
        await press(pilot, "t")
        await settled(pilot)
        assert running.session.current == "timeline"
