"""Every key of the list does what the help says of it; no key is untested."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from app_runs import Shelf, app_on, press, said, screen_text, settled, small_run
from textual.pilot import Pilot

from warplens.analysis.query.ask import ask
from warplens.analysis.views import VIEWS
from warplens.analysis.views.kernels import VIEW
from warplens.tui.app.app import WarplensApp
from warplens.tui.overlays.overlay import WarningsScreen
from warplens.tui.session.keys import KEYS
from warplens.tui.session.settings import Settings

Check = Callable[[WarplensApp, Pilot[Any]], Awaitable[None]]
CHECKS: dict[str, Check] = {}


def key(name: str) -> Callable[[Check], Check]:
    """The test of one key, by its name in ``keys.KEYS``."""

    def keep(check: Check) -> Check:
        CHECKS[name] = check
        return check

    return keep


def pane(app: WarplensApp) -> Any:
    return app.main.pane


def border(app: WarplensApp) -> str:
    """The line that says what is in force."""
    return next(line for line in screen_text(app).splitlines() if "all cycles" in line)


def state(app: WarplensApp) -> Any:
    return app.main.pane.state


@pytest.mark.parametrize("name", [one.name for one in KEYS if one.place not in ("timeline", "flame")])
async def test_key(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm-256color")
    app = app_on("a", "b", view="cycles" if name in ("scope", "unscope", "order") else "kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await CHECKS[name](app, pilot)
        await settled(pilot)
        rows = pane(app).rows
        assert rows.table is None or 0 <= rows.cursor < max(1, len(rows.table)), "the cursor is on no row"


@key("details")
async def details(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "enter")
    assert "Kernels: details" in screen_text(app)
    shown = app.screen.lines.render().plain
    assert "Longest · A" in shown and "By cycle · B" in shown
    await press(pilot, "escape")
    assert app.screen is app.main


@key("more")
async def more(app: WarplensApp, pilot: Pilot[Any]) -> None:
    hidden = app.main.tabs.more
    assert hidden and f"… {len(hidden)} more" in screen_text(app)
    await press(pilot, "full_stop")
    assert "View: Triage" in screen_text(app) and "Theme:" not in screen_text(app)
    await press(pilot, "escape")
    assert app.screen is app.main


@key("side_panel")
async def beside(app: WarplensApp, pilot: Pilot[Any]) -> None:
    assert "Launched by" in screen_text(app) or "Latency" in screen_text(app)
    await press(pilot, "D")
    assert "Latency" not in screen_text(app)
    await press(pilot, "D")
    assert "Latency" in screen_text(app)


@key("unfold")
async def unfold(app: WarplensApp, pilot: Pilot[Any]) -> None:
    before = screen_text(app)
    await press(pilot, "plus")
    assert screen_text(app) == before, "kernels are no tree; test_ops opens one"


@key("fold")
async def fold(app: WarplensApp, pilot: Pilot[Any]) -> None:
    before = screen_text(app)
    await press(pilot, "minus")
    assert screen_text(app) == before, "kernels are no tree; test_ops closes one"


@key("place")
async def place(app: WarplensApp, pilot: Pilot[Any]) -> None:
    name = pane(app).row()["name"]
    await press(pilot, "t")
    assert pane(app).entry.name == "timeline"
    assert name in {app.main.pane.canvas.runs[0].names[int(code)] for code in pane(app).canvas.lane.slices.names}
    assert pane(app).canvas.slice() is not None


@key("search")
async def search(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "slash", *"softmax")
    assert "softmax" in str(pane(app).row()["name"])
    await press(pilot, "enter")
    assert state(app).search == "softmax" and "/softmax" in screen_text(app)


@key("next_match")
async def next_match(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "slash", *"kernel", "enter")
    first = pane(app).row()["name"]
    await press(pilot, "n")
    assert pane(app).row()["name"] != first


@key("previous_match")
async def previous_match(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "slash", *"kernel", "enter")
    first = pane(app).row()["name"]
    await press(pilot, "n", "N")
    assert pane(app).row()["name"] == first


@key("filter")
async def filter_rows(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "f", *"softmax", "enter")
    assert len(pane(app).table) == 1
    assert " softmax " in screen_text(app) and "1 of 6 kernels" in screen_text(app)


@key("invert")
async def invert(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "f", *"softmax", "enter", "!")
    assert len(pane(app).table) == 5 and "not softmax" in screen_text(app)


@key("columns")
async def columns(app: WarplensApp, pilot: Pilot[Any]) -> None:
    assert "kind" not in pane(app).rows.in_sight
    await press(pilot, "number_sign", "j", "space", "escape")
    assert "kind" in pane(app).rows.in_sight and app.session.columns == {"kernels": {"kind": "shown"}}


@key("try_change")
async def try_change(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "a")
    assert "a tries a change in the what-if view" in said(app) and not app.main.prompt.display
    await press(pilot, "a")
    assert said(app).count("a tries a change") == 1  # once, then it only rings


@key("copy_command")
async def copy_command(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "f", *"softmax", "enter", "Y")
    command = pane(app).command
    assert command.startswith("warplens report ") and command.endswith("--view kernels --filter softmax")
    assert "Sent" in said(app) or "written to" in said(app)


@key("sort_left")
async def sort_left(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, ">", ">", "<")
    assert pane(app).table.sorted_by == pane(app).table.columns[0].name


@key("sort_right")
async def sort_right(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, ">")
    assert pane(app).table.sorted_by == "name" and state(app).arrangement.sort == "name"


@key("reverse")
async def reverse(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, ">")
    before = pane(app).table.window(0, 6)
    await press(pilot, "r")
    assert pane(app).table.window(0, 6) == before[::-1]


@key("order")
async def order(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "s")
    column = [one.name for one in pane(app).table.columns].index("cycle_a")
    assert [row[column] for row in pane(app).table.window(0, 6)] == [1, 2, 3, 4, 5, 6]
    await press(pilot, "s")
    assert [row[0] for row in pane(app).table.window(0, 6)] == [1, 2, 3, 4, 5, 6]


@key("undo")
async def undo(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "f", *"softmax", "enter", ">", "u")
    assert pane(app).table.sorted_by is None and len(pane(app).table) == 1
    await press(pilot, "u")
    assert len(pane(app).table) == 6


@key("mark")
async def mark(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "space")
    assert state(app).marks == {0} and "1 marked" in screen_text(app)
    await press(pilot, "k", "space")
    assert state(app).marks == set()


@key("scope")
async def scope(app: WarplensApp, pilot: Pilot[Any]) -> None:
    row = pane(app).row()
    await press(pilot, "c")
    assert (app.session.cycle, app.session.cycle_b) == (row["cycle_a"], row["cycle_b"])
    assert f"cycle {row['cycle_a']} of A, cycle {row['cycle_b']} of B" in screen_text(app)


@key("unscope")
async def unscope(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "c", "C")
    assert app.session.cycle is None and "all cycles" in screen_text(app)


@key("cycle_next")
async def cycle_next(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "]", "]")
    assert (app.session.cycle, app.session.cycle_b) == (2, 2)


@key("cycle_previous")
async def cycle_previous(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "[", "[")
    assert (app.session.cycle, app.session.cycle_b) == (5, 5)


@key("other_run")
async def other_run(app: WarplensApp, pilot: Pilot[Any]) -> None:
    seen = []
    for _ in range(4):
        seen.append((app.session.subject, len(pane(app).table.columns)))
        await press(pilot, "x")
    assert [subject for subject, _ in seen] == ["both", "A", "B", "both"]
    assert seen[1][1] < seen[0][1]


async def test_one_switch_chooses_the_run_of_every_view() -> None:
    app = app_on("a", "b", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        both = pane(app).table.frame
        for subject, run in (("A", 0), ("B", 1)):
            await press(pilot, "x")
            rows = {}
            for view in ("3", "1", "4", "2", "6", "3"):
                await press(pilot, view)
                assert pane(app).subject == subject and f"run {subject}" in border(app), view
                rows[view] = pane(app).table.frame if view != "6" else None
            alone = ask(VIEW, app.session.traces[run : run + 1]).frame
            assert rows["1"].equals(rows["3"]) and rows["3"].equals(alone), "the kernels of that run and no other"
            await press(pilot, "7")
            assert "run " not in border(app), "the diff is of both"
            await press(pilot, "3")
        await press(pilot, "x", "1", "3")
        assert pane(app).table.frame.equals(both)


@key("per")
async def per(app: WarplensApp, pilot: Pilot[Any]) -> None:
    def state_line() -> str:
        return border(app)

    assert "per cycle" in state_line()
    totals = {per: {c.name for c in pane(app).table.compared(per).columns if c.per and c.order is not None}
              for per in ("cycle", "recording")}
    assert "per_cycle_ns_delta" in totals["cycle"] and "total_ns_delta" in totals["recording"]
    await press(pilot, "%")
    assert "per recording" in state_line()
    assert {c.name for c in pane(app).table.columns if c.per and c.order is not None} == totals["recording"]
    await press(pilot, "%")
    assert "per cycle" in state_line()


async def test_in_the_diff_what_is_headed_a_stays_a() -> None:
    app = app_on("a", "b", view="diff")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        before = pane(app).table.frame
        await press(pilot, "x")
        assert pane(app).table.frame.equals(before) and app.session.subject == "both"
        assert "This view compares A with B" in said(app)


@key("export")
async def export(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "f", *"softmax", "enter", "e", "e")
    written = Path("warplens-kernels-normal-abnormal.md").read_text()
    assert "softmax_warp_forward" in written and "ampere" not in written
    assert Path("warplens-kernels-normal-abnormal-2.md").read_text() == written
    assert "Written to warplens-kernels-normal-abnormal-2.md" in said(app)


@key("note")
async def note(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "j", "i", *"look", "enter")
    row = pane(app).table.row_id(1)
    assert state(app).notes == {row: "look"} and state(app).marks == {row}
    await press(pilot, "1", "e")
    page = Path("warplens-triage-normal-abnormal.md").read_text()
    assert "## Marked rows" in page and "| look |" in page and state_of(app, "kernels").words[row][:12] in page
    await press(pilot, "3", "i", "ctrl+u", "enter")
    assert not state(app).notes


def state_of(app: WarplensApp, view: str) -> Any:
    return app.session.state(view)


@key("export_as")
async def export_as(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "E", "ctrl+u", *"rows.csv", "enter")
    assert Path("rows.csv").read_text().splitlines()[0].startswith("name,")
    await press(pilot, "E", "ctrl+u", *"rows.xyz", "enter")
    assert ".xyz is not an export format" in said(app)


@key("copy")
async def copy(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "y")
    assert "Sent" in said(app)


@key("maximise")
async def maximise(app: WarplensApp, pilot: Pilot[Any]) -> None:
    before = pane(app).rows.size.height
    await press(pilot, "z")
    assert pane(app).rows.size.height > before
    await press(pilot, "z")
    assert pane(app).rows.size.height == before


@key("back")
async def back(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "4", "2", "backspace")
    assert pane(app).entry.name == "launches"
    await press(pilot, "backspace")
    assert pane(app).entry.name == "kernels"


@key("escape")
async def escape(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "f", *"kernel", "enter", "slash", *"void", "enter", "question_mark", "escape")
    assert app.screen is app.main and state(app).search == "void"
    await press(pilot, "escape")
    assert state(app).search == "" and state(app).arrangement.filter == "kernel"
    await press(pilot, "escape")
    assert state(app).arrangement.filter == ""
    await press(pilot, "escape")
    assert app.is_running and pane(app).entry.name == "kernels"


@key("pane_next")
async def pane_next(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "tab")
    assert app.focused is pane(app).rows
    assert "Nothing else to focus" in said(app)


@key("pane_previous")
async def pane_previous(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "shift+tab")
    assert app.focused is pane(app).rows


@key("warnings")
async def warnings(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "w")
    assert isinstance(app.screen, WarningsScreen)
    assert "no problems in this input" in screen_text(app)


@key("open_trace")
async def open_trace(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "o", "o", *"b", "enter")
    assert app.screen is app.main
    assert [run.path for run in app.session.inputs] == ["b"]


@key("recordings")
async def recordings(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "O")
    assert "Open recordings" in screen_text(app)
    await press(pilot, "enter")
    await settled(pilot)
    assert [run.path for run in app.session.inputs] == ["a"] and app.session.recordings == ["a", "b"]


@key("copy_name")
async def copy_name(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "ctrl+y")
    assert "Sent" in said(app) or "written to" in said(app)


def _terminal_is_given(app: WarplensApp, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the app gave its terminal away, instead of doing so: a test has none."""
    given: list[bool] = []

    @contextmanager
    def suspend() -> Iterator[None]:
        given.append(True)
        yield

    monkeypatch.setattr(app, "suspend", suspend)
    return given


@key("pager")
async def pager(app: WarplensApp, pilot: Pilot[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        given = _terminal_is_given(app, patch)
        patch.setenv("PAGER", "true")
        await press(pilot, "vertical_line")
        for _ in range(50):
            if given:
                break
            await settled(pilot)
    assert given and app.screen is app.main


@key("editor")
async def editor(app: WarplensApp, pilot: Pilot[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        given = _terminal_is_given(app, patch)
        patch.delenv("VISUAL", raising=False)
        patch.setenv("EDITOR", "true")
        await press(pilot, "i", *"note", "ctrl+e")
        for _ in range(50):
            if given:
                break
            await settled(pilot)
        await press(pilot, "enter")
    assert given and list(pane(app).state.notes.values()) == ["note"]


@key("record")
async def record(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "R")
    assert "warplens record" in said(app)  # tests of it with a recorder: test_recording.py


@key("palette")
async def palette(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "colon", *"theme: light")
    await pilot.pause(0.1)
    await press(pilot, "enter")
    await settled(pilot)
    assert app.theme == "light"


@key("help")
async def help_screen(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "?")
    assert "Help: Kernels" in screen_text(app) and "Which kernels take the time" in screen_text(app)


@key("stop")
async def stop(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "ctrl+c")
    assert app.is_running and "Nothing to cancel; q quits." in said(app)


@key("suspend")
async def suspend(app: WarplensApp, pilot: Pilot[Any]) -> None:
    called = []
    app.action_suspend_process = lambda: called.append(True)
    await press(pilot, "ctrl+z")
    assert called


@key("quit")
async def quit_app(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "?", "q")
    assert app.is_running and app.screen is app.main
    await pilot.press("q")
    await pilot.pause()
    assert not app.is_running


async def moved(app: WarplensApp, pilot: Pilot[Any], *keys: str) -> int:
    await press(pilot, *keys)
    return int(pane(app).rows.cursor)


@key("down")
async def down(app: WarplensApp, pilot: Pilot[Any]) -> None:
    assert await moved(app, pilot, "j", "down") == 2


@key("up")
async def up(app: WarplensApp, pilot: Pilot[Any]) -> None:
    assert await moved(app, pilot, "j", "j", "j", "k", "up") == 1


@key("page_down")
async def page_down(app: WarplensApp, pilot: Pilot[Any]) -> None:
    assert await moved(app, pilot, "4", "pagedown") == pane(app).rows.size.height - 3


@key("page_up")
async def page_up(app: WarplensApp, pilot: Pilot[Any]) -> None:
    assert await moved(app, pilot, "4", "pagedown", "pageup") == 0


@key("half_down")
async def half_down(app: WarplensApp, pilot: Pilot[Any]) -> None:
    assert 5 < await moved(app, pilot, "4", "ctrl+d") < 20


@key("half_up")
async def half_up(app: WarplensApp, pilot: Pilot[Any]) -> None:
    assert await moved(app, pilot, "4", "ctrl+d", "ctrl+u") == 0


@key("first")
async def first(app: WarplensApp, pilot: Pilot[Any]) -> None:
    assert await moved(app, pilot, "j", "j", "g") == 0
    assert await moved(app, pilot, "j", "home") == 0


@key("last")
async def last(app: WarplensApp, pilot: Pilot[Any]) -> None:
    assert await moved(app, pilot, "G") == 5
    assert await moved(app, pilot, "g", "end") == 5


@key("left")
async def left(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "l", "l", "right", "h", "left")
    assert pane(app).rows.selected_column.name == "name"


@key("right")
async def right(app: WarplensApp, pilot: Pilot[Any]) -> None:
    await press(pilot, "l", "right")
    listed = [column.name for column in pane(app).table.columns if column.order is not None]
    assert pane(app).rows.selected_column.name == listed[1]


async def test_a_number_opens_its_view() -> None:
    app = app_on("a", "b", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        for entry in sorted(VIEWS, key=lambda entry: entry.name == "sql"):  # which takes what is typed
            if not entry.key:
                continue
            await press(pilot, entry.key)
            assert pane(app).entry.name == entry.name
            assert f"▐{entry.key} {entry.title}▌" in screen_text(app)


async def test_remapped_keys_act_and_are_what_the_footer_shows() -> None:
    app = app_on("a", settings=Settings(keys={"export": "f5", "filter": "F", "page_down": "J"}), view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "F filter" in screen_text(app)
        await press(pilot, "f")
        assert not app.main.prompt.display
        await press(pilot, "F")
        assert app.main.prompt.display
        await press(pilot, "escape", "4", "J")
        assert pane(app).rows.cursor > 5


async def test_stop_ends_a_load_and_keeps_the_app() -> None:
    shelf = Shelf(a=small_run())
    app = app_on("a", "never", shelf=shelf)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "never" in screen_text(app)
        await press(pilot, "ctrl+c")
        assert shelf.cancelled == ["never"]
        assert "stopped" in screen_text(app)


async def test_what_is_below_the_fold_is_reached_by_tab_and_page_down() -> None:
    app = app_on("a", "b", view="idle")
    async with app.run_test(size=(60, 12)) as pilot:
        await settled(pilot)
        drawing = pane(app).drawing
        last = drawing._content(drawing.size.width).plain.splitlines()[-1].strip()
        assert drawing.cut and last not in screen_text(app) and "Tab, then PgDn" in screen_text(app)
        await press(pilot, "tab")
        assert app.focused is drawing
        await press(pilot, *["pagedown"] * 12)
        assert last in screen_text(app)
        await press(pilot, "pageup", "tab")
        assert app.focused is pane(app).rows


async def test_a_cycle_of_a_job_is_that_of_the_cursors_rank() -> None:
    import polars as pl
    from msgspec.structs import replace

    def of_two_ranks() -> Any:
        one = small_run("job")
        ranked = {
            name: pl.concat([getattr(one, name).with_columns(rank=pl.lit(rank, pl.Int64)) for rank in (0, 1)])
            for name in ("kernels", "cycles")
        }
        ranked["kernels"] = ranked["kernels"].drop("index").with_row_index("index").cast({"index": pl.Int64})
        ranked["kernels"] = ranked["kernels"].select(one.kernels.collect_schema().names())
        return replace(one.with_tables(**ranked), info=replace(one.info, ranks=(0, 1)))

    app = app_on("job", view="cycles", shelf=Shelf(job=of_two_ranks()))
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        assert "rank" in screen_text(app)
        row = pane(app).row()
        await press(pilot, "c")
        assert (app.session.cycle, app.session.rank) == (row["cycle"], row["rank"])
        assert f"cycle {row['cycle']}, rank {row['rank']}" in screen_text(app)
        await press(pilot, "4")
        assert {one for (one,) in pane(app).table.window(0, 99, ["rank"])} == {row["rank"]}
        await press(pilot, "C")
        assert (app.session.cycle, app.session.rank) == (None, None)


async def test_views_without_a_key_are_in_the_help_and_have_a_tab_while_they_are_shown() -> None:
    app = app_on("a", view="copies")
    async with app.run_test(size=(120, 200)) as pilot:
        await settled(pilot)
        assert "▐Copies▌" in screen_text(app)
        await press(pilot, "question_mark")
        assert re.search(": +Copies: ", screen_text(app))
        await press(pilot, "escape", "3")
        assert "Copies" not in screen_text(app).splitlines()[1]
