"""The frame around a view: tabs in the width there is, and columns as the user wants them."""

from __future__ import annotations

from pathlib import Path

from app_runs import app_on, press, screen_text, settled

from warplens.analysis.query.ask import ask
from warplens.analysis.views import view
from warplens.loaders.ingest.opening import open_run
from warplens.tui.widgets.chrome import Header


async def tabs_at(width: int) -> str:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(width, 24)) as pilot:
        await settled(pilot)
        return screen_text(app).splitlines()[1].rstrip()


async def test_tabs_are_whole_where_they_fit_and_the_longest_give_way_first() -> None:
    wide = await tabs_at(120)
    assert "1 Overview" in wide and "v Collectives b What-if" in wide
    assert "Ranks" not in wide  # there is one rank
    narrower = await tabs_at(80)
    assert "8 Idle 0 SQL v Coll b W" in narrower and "Collectives" not in narrower
    narrow = await tabs_at(44)
    assert "▐3 Kern▌" in narrow and " v b" in narrow


async def test_a_running_question_is_seen_on_the_narrowest_screen() -> None:
    """A long title and the key that cancels must not push it out: what is shown is not final while it runs."""
    app = app_on("a", view="kernels")
    async with app.run_test(size=(60, 20)) as pilot:
        await settled(pilot)
        app.main.query_one(Header).show_state("run of a long name → another run of a long name", 0,
                                              "Computing… ^C cancels", "?")
        await pilot.pause()
        line = screen_text(app).splitlines()[0]
        assert "Computing…" in line and "? help" in line


async def test_columns_that_were_chosen_are_remembered() -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        await press(pilot, "number_sign", *"jjjjjjjjj", "space", "escape")
    again = app_on("a", view="kernels")
    async with again.run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        assert again.main.pane is not None and "min_ns" in again.main.pane.rows.in_sight


async def test_a_prompt_goes_with_its_view() -> None:
    app = app_on("a", view="sql")
    async with app.run_test(size=(120, 30)) as pilot:
        await settled(pilot)
        assert app.main.prompt.display
        app.main.open_view("kernels")
        await settled(pilot)
        assert not app.main.prompt.display and app.focused is app.main.pane.rows  # type: ignore[union-attr]


def test_rows_that_neither_run_has_anything_of_are_left_out() -> None:
    folder = Path(__file__).resolve().parents[3] / "samples" / "demo"
    runs = tuple(open_run(str(folder / f"{name}.json.gz"))[0] for name in ("normal", "abnormal"))
    whole = ask(view("idle"), runs).compared("cycle")
    shown = whole.without_empty_rows()
    sums = ["per_cycle_ns_a", "per_cycle_ns_b"]
    left = [row for row in whole.window(0, len(whole), sums) if any(row)]
    assert shown.window(0, len(shown), sums) == left and 0 < len(left) == shown.total_rows <= len(whole)
    breakdown = ask(view("overview"), runs).compared("cycle")
    categories = {row[0] for row in breakdown.without_empty_rows().window(0, 20, ["category"])}
    assert "Memset" not in categories and "Other" in categories
