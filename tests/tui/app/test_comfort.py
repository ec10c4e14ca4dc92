"""What makes it an instrument: it loads beside you, goes on where it was left, and nothing recorded can act on it."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from app_runs import NAMES, Shelf, app_on, press, said, screen_text, settled, small_run
from textual._styles_cache import StylesCache

from warplens.analysis.contract.view import Answer, View
from warplens.loaders.events import FirstRows, Loaded, Progress
from warplens.loaders.ingest.discovery import TraceFound
from warplens.loaders.trace import Trace
from warplens.tui.app.app import WarplensApp
from warplens.tui.app.crash import crash_report
from warplens.tui.overlays.details import DetailsScreen
from warplens.tui.overlays.help import HelpScreen
from warplens.tui.overlays.overlay import ClosesOnce
from warplens.tui.panes import answered
from warplens.tui.panes.shown import arranged
from warplens.tui.session import resume
from warplens.tui.session.exporting import exported
from warplens.tui.session.messages import RunsRequest
from warplens.tui.session.session import TimeNote
from warplens.tui.session.settings import Settings
from warplens.tui.session.watch import Watch
from warplens.tui.terminal.clipboard import LONGEST, sequence


async def test_a_load_shows_progress_first_rows_and_then_all() -> None:
    shelf = Shelf()
    app = app_on("big", shelf=shelf, view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        tell = shelf.listeners["big"]
        tell(Progress(50 << 20, 200 << 20, 120_000))
        app._tick()
        await settled(pilot)
        assert "25%  50.0 MiB of 200.0 MiB  120,000 events" in screen_text(app)
        tell(FirstRows(lambda: (small_run(),)))
        await settled(pilot)
        assert "softmax_warp_forward" in screen_text(app) and "preview of what was read first: " in screen_text(app)
        assert "of time" not in screen_text(app), "a share of rows nobody has read"
        tell(Loaded(lambda: (small_run("whole"),)))
        await settled(pilot)
        app._tick()
        await settled(pilot)
        assert "preview" not in screen_text(app) and "whole · 108 launches" in screen_text(app)


def held_up(app: WarplensApp, monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Hold answers about the run ``whole`` up until the second event; the first says that one was asked."""
    asked, hold, ask = threading.Event(), threading.Event(), app.session.answers.ask

    def slowly(view: View, runs: Any, *rest: Any) -> Any:
        if runs[0].info.label == "whole":
            asked.set()
            hold.wait()
        return ask(view, runs, *rest)

    monkeypatch.setattr(app.session.answers, "ask", slowly)
    return asked, hold


async def until(holds: Callable[[], bool]) -> None:
    """Until this holds, which what a thread answers brings about; fails where it long does not."""
    for _ in range(20_000):
        if holds():
            return
        await asyncio.sleep(0.001)  # a pilot's pause would keep the interpreter from the thread
    raise AssertionError("it never came")


async def test_a_diff_waits_for_the_second_run_until_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf(whole=small_run("whole"))
    app = app_on("whole", "late", shelf=shelf, view="diff")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "Waiting for the second run." in screen_text(app)
        asked, hold = held_up(app, monkeypatch)
        shelf.listeners["late"](Loaded(lambda: (small_run("late"),)))
        await until(asked.is_set)
        await until(lambda: "Rows appear here once they are computed." in screen_text(app))
        assert "Waiting" not in screen_text(app)
        hold.set()
        await settled(pilot)
        assert "Verdict" in screen_text(app) and "Rows appear" not in screen_text(app)


@pytest.mark.parametrize("typed", ["gemm", "dur_ns>soon"])
async def test_a_filter_typed_while_all_is_asked_is_not_all_there_is(
    monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    """The answer about the first rows is filtered at once; that about all rows, which was on its way, still comes."""
    shelf = Shelf()
    app = app_on("big", shelf=shelf, view="launches")
    first = small_run()
    first = first.with_tables(kernels=first.kernels.head(12))
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        tell = shelf.listeners["big"]
        tell(FirstRows(lambda: (first,)))
        await settled(pilot)
        assert "12 of 12 launches" in screen_text(app)
        asked, hold = held_up(app, monkeypatch)
        tell(Loaded(lambda: (small_run("whole"),)))
        await until(asked.is_set)
        await pilot.press("f", *typed, "enter")
        if typed == "gemm":
            await until(lambda: "2 of 12 launches" in screen_text(app))
        else:
            await until(lambda: "is a number, 'soon' is not" in screen_text(app))
            await pilot.press("escape")
        hold.set()
        await settled(pilot)
        shown = "18 of 108 launches" if typed == "gemm" else "108 of 108 launches"
        assert shown in screen_text(app), screen_text(app)


async def test_an_order_chosen_while_all_is_asked_is_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf()
    app = app_on("big", shelf=shelf, view="launches")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        tell = shelf.listeners["big"]
        tell(FirstRows(lambda: (small_run(),)))
        await settled(pilot)
        asked, hold = held_up(app, monkeypatch)
        tell(Loaded(lambda: (small_run("whole", slow=3.0),)))
        await until(asked.is_set)
        app.main.pane.rows.sort_by("dur_ns")
        await until(lambda: app.main.pane.state.arrangement.sort == "dur_ns")
        hold.set()
        await settled(pilot)
        shown = app.main.pane.table
        durations = [row[0] for row in shown.window(0, 108, ["dur_ns"])]
        assert shown.sorted_by == "dur_ns" and durations == sorted(durations, reverse=True) and len(durations) == 108


async def test_a_filter_that_takes_longer_than_all_the_rest_is_one_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows it was begun on are gone when it is done: it is begun again on those there are now."""
    shelf, hold, begun = Shelf(), threading.Event(), threading.Event()
    app = app_on("big", shelf=shelf, view="launches")
    first = small_run()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        tell = shelf.listeners["big"]
        tell(FirstRows(lambda: (first.with_tables(kernels=first.kernels.head(12)),)))
        await settled(pilot)

        def slowly(view: View, base: Any, arrangement: Any) -> Any:
            if arrangement.filter and len(base) == 12:
                begun.set()
                hold.wait()
            return arranged(view, base, arrangement)

        monkeypatch.setattr(answered, "arranged", slowly)
        await pilot.press("f", *"gemm", "enter")
        await until(begun.is_set)
        tell(Loaded(lambda: (small_run("whole"),)))
        await until(lambda: "108 of 108 launches" in screen_text(app))
        hold.set()
        await settled(pilot)
        assert "18 of 108 launches" in screen_text(app) and not app.main.prompt.display


async def test_the_ranks_of_a_job_are_shown_as_they_are_read() -> None:
    shelf = Shelf()
    app = app_on("job", shelf=shelf, view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        tell = shelf.listeners["job"]
        for read in (1, 17):
            tell(FirstRows(lambda read=read: (small_run(f"first {read}"),), read, 64))
            tell(Progress(50 << 20, 200 << 20, 120_000))
            await settled(pilot)
            app._tick()
            await settled(pilot)
            assert f"{read} of 64 ranks read" in screen_text(app) and f"first {read} · 108 launches" in screen_text(app)
        tell(Loaded(lambda: (small_run("whole"),)))
        await settled(pilot)
        app._tick()
        await settled(pilot)
        assert "ranks read" not in screen_text(app) and "whole · 108 launches" in screen_text(app)


async def test_progress_is_painted_without_laying_the_screen_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, layouts = Shelf(), []
    app = app_on("big", shelf=shelf, view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        shelf.listeners["big"](Progress(50 << 20, 200 << 20, 120_000))
        app._tick()
        await settled(pilot)
        laid_out = app.screen._refresh_layout
        monkeypatch.setattr(app.screen, "_refresh_layout", lambda *given, **how: (layouts.append(1), laid_out(*given)))
        shelf.listeners["big"](Progress(100 << 20, 200 << 20, 240_000))
        app._tick()
        await settled(pilot)
        assert "50%  100.0 MiB of 200.0 MiB  240,000 events" in screen_text(app)
        assert not layouts
        shelf.listeners["big"](Loaded(lambda: (small_run(),)))
        await settled(pilot)
        assert layouts and "of 200.0 MiB" not in screen_text(app)


async def test_an_error_is_shown_in_place_and_the_other_run_is_still_there() -> None:
    app = app_on("a", "bad", shelf=Shelf(a=small_run(), bad="bad: is empty."))
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        shown = screen_text(app)
        assert "bad: is empty." in shown and "Give another one." in shown
        assert "▐1 Overview▌" in shown and "softmax_warp_forward" in shown


async def test_a_late_answer_to_an_older_question_is_never_shown() -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        runner = app.main.pane.runner
        taken: list[str] = []
        runner.ask(lambda: "old", taken.append)
        runner.ask(lambda: "new", taken.append)
        await settled(pilot)
        assert taken == ["new"]


async def test_a_filter_that_cannot_be_understood_is_said_beside_it() -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "f", *"total>soon", "enter")
        assert app.main.prompt.display and "is a number, 'soon' is not" in screen_text(app)
        await press(pilot, "escape")
        assert "no filter" in screen_text(app)


async def test_resume_goes_on_where_the_pair_was_left() -> None:
    app = app_on("a", "b", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "f", *"kernel", "enter", ">", "space", "]")
        left = app.main.pane.state
        resume.keep(app.session)
    again = app_on("a", "b", resume=True)
    async with again.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        pane: Any = again.main.pane
        assert pane.entry.name == "kernels"
        assert pane.state.arrangement == left.arrangement and pane.rows.marks == left.marks
        assert again.session.cycle == 1 and "cycle 1" in screen_text(again)
    assert app_on("a").session.views == {}


@pytest.mark.parametrize("resumed", [True, False])
async def test_a_note_is_there_again_at_the_next_start_and_leaves_with_the_triage_page(
    resumed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = app_on("a", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "down", "i", *"why so long", "enter")
        resume.keep(app.session)
    again = app_on("a", resume=resumed, view="kernels")
    async with again.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        pane = again.main.pane
        assert pane is not None and list(pane.state.notes.values()) == ["why so long"]
        assert pane.state.marks == set(pane.state.notes) == pane.rows.marks
        await press(pilot, "1", "e")
        (page,) = tmp_path.glob("*.md")
        assert "why so long" in page.read_text()


async def test_a_note_on_a_row_is_not_on_another_row_with_its_number() -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "down", "i", *"why so long", "enter")
        app.session.state("kernels").words = dict.fromkeys(app.session.state("kernels").words, "gemm · total 9 s")
        resume.keep(app.session)
    again = app_on("a", view="kernels")
    async with again.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        pane: Any = again.main.pane
        assert not pane.rows.marks


@pytest.mark.parametrize("there, back", [("]", "C"), ("x", "xx")])
async def test_notes_stay_with_the_rows_of_their_scope_and_run(there: str, back: str) -> None:
    app = app_on("a", "b", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "down", "i", *"why so long", "enter")
        pane: Any = app.main.pane
        marks = set(pane.rows.marks)
        for key in there:
            await press(pilot, key)
        assert marks and not pane.rows.marks
        assert [note for _, _, note in app.session.marked] == ["why so long"]
        resume.keep(app.session)
        for key in back:
            await press(pilot, key)
        assert pane.rows.marks == marks and list(pane.state.notes.values()) == ["why so long"]
    again = app_on("a", "b", view="kernels")
    async with again.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert again.main.pane.rows.marks == marks


async def test_notes_on_times_are_those_of_the_recordings_that_are_open() -> None:
    app = app_on("a", "b", view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        app.session.time_notes[:] = [TimeNote(run, 5, 9, "gemm", text) for run, text in enumerate(("in a", "in b"))]
        app.open_runs(["b"])
        await settled(pilot)
        assert [(one.run, one.text) for one in app.session.time_notes] == [(0, "in b")]
        app.open_runs(["b", "a"])
        await settled(pilot)
        assert [(one.run, one.text) for one in app.session.time_notes] == [(0, "in b"), (1, "in a")]


async def test_a_recording_opened_twice_keeps_the_notes_of_both_sides() -> None:
    app = app_on("a", "a", view="timeline")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        app.session.time_notes[:] = [TimeNote(run, 5 + run, 9, "gemm", text) for run, text in enumerate(("one", "two"))]
        for _ in range(2):  # both sides have both notes then, which is no reason to keep them twice
            app.open_runs(["a"])
            await settled(pilot)
            assert [one.text for one in app.session.time_notes] == ["one", "two"]
            app.open_runs(["a", "a"])
            await settled(pilot)


@pytest.mark.parametrize("damage", [
    {"views": [1]}, {"views": {"kernels": 3}}, {"views": {"kernels": {"others": 3}}},
    {"views": {"kernels": {"others": {"|both|": 4}}}}, {"views": {"kernels": {"rows": 5}}},
])
def test_a_start_passes_over_damaged_notes(damage: dict[str, Any]) -> None:
    session = app_on("a").session
    whole = {"arrangement": {}, "marks": [1], "cursor": 0, "notes": {"1": "n"}, "words": {"1": "w"}}
    views = damage["views"]
    if isinstance(views, dict) and isinstance(views["kernels"], dict):
        damage = {"views": {"kernels": whole | views["kernels"]}}
    path = os.path.abspath(session.inputs[0].path)
    resume.state_path().parent.mkdir(parents=True, exist_ok=True)
    resume.state_path().write_text(json.dumps({
        "sessions": {resume._key([session.inputs[0].path]): damage}, "time_notes": {path: 3}}))
    resume.restore_notes(session)
    assert session.time_notes == [] and all(state.rows is None for state in session.views.values())


@pytest.mark.parametrize("kept", ["", "{", "[]", '{"sessions": 3, "recent": [1, {"path": 2}]}'])
def test_a_damaged_memory_is_no_memory(kept: str) -> None:
    resume.state_path().parent.mkdir(parents=True, exist_ok=True)
    resume.state_path().write_text(kept)
    assert resume.recent() == []
    assert not resume.restore(app_on("a").session)


@dataclass
class Folder:
    """A folder whose files a test puts there."""

    found: list[TraceFound]

    def __call__(self, root: Path) -> Iterator[TraceFound]:
        return iter(self.found)


async def listed(pilot: Any) -> None:
    """Until the picker has found everything and lists it."""
    await settled(pilot)
    picker: Any = pilot.app.screen
    while picker._searching:
        await pilot.pause(0.002)
    picker._look()
    await settled(pilot)


async def test_alone_it_offers_what_is_here_and_opens_two(tmp_path: Path) -> None:
    sizes = {"one": 1000, "two": 2000, "three": 3000}
    files = [TraceFound(tmp_path / name, size, "kineto") for name, size in sizes.items()]
    shelf = Shelf(**{str(tmp_path / name): small_run(name) for name in ("one", "two")})
    app = app_on(shelf=shelf, discover=Folder(files), none=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot)
        assert "3 traces" in screen_text(app) and "three" in screen_text(app) and "2.9 KiB" in screen_text(app)
        await press(pilot, "space", "space", "enter")
        assert [Path(run.path).name for run in app.session.inputs] == ["one", "two"]
        assert "one" in screen_text(app)


@pytest.mark.parametrize("key", ["o", "?"])
async def test_a_screen_that_is_closed_twice_closes_none_below_it(key: str) -> None:
    """Keys that arrive together: a second Enter after a path that was typed ended the app."""
    app = app_on("a", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        below = app.screen
        await press(pilot, key)
        over = app.screen
        assert isinstance(over, ClosesOnce)
        over.dismiss()
        over.dismiss()
        assert app.screen is below
        await settled(pilot)


async def test_the_run_marked_first_is_a_and_the_ends_of_long_paths_tell_them_apart(tmp_path: Path) -> None:
    """The same name in two folders looked the same, and A was whichever stood above."""
    paths = [tmp_path / "recordings_of_this_quarter" / folder / f"{'model' * 8}.json" for folder in ("h100", "mi300")]
    files = [TraceFound(path, 1000, "kineto") for path in paths]
    shelf = Shelf(**{str(path): small_run(path.parent.name) for path in paths})
    app = app_on(shelf=shelf, discover=Folder(files), none=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(pilot)
        assert all(f"/{path.parent.name}/{path.name} " in screen_text(app) for path in paths), screen_text(app)
        await press(pilot, "down", "space")
        assert f"  {'model' * 2}" in screen_text(app).splitlines()[0]
        await press(pilot, "up", "space", "enter")
        assert [Path(run.path).parent.name for run in app.session.inputs] == ["mi300", "h100"]


async def test_long_names_that_differ_where_they_begin_or_end_do_not_look_alike(tmp_path: Path) -> None:
    names = [f"{first}_{'llama_' * 15}{last}.pt.trace.json" for first in ("h100", "mi300") for last in (1, 2)]
    files = [TraceFound(tmp_path / "runs_of_today" / name, 1000, "kineto") for name in names]
    for width in (80, 120):
        async with app_on(shelf=Shelf(), discover=Folder(files), none=True).run_test(size=(width, 40)) as pilot:
            await listed(pilot)
            text = screen_text(pilot.app)
            assert all(f"of_today/{name[:8]}" in text and name[-16:] in text for name in names), text


def test_a_watched_folder_offers_what_is_new_and_complete(tmp_path: Path) -> None:
    folder = Folder([TraceFound(tmp_path / "old", 5, "kineto")])
    watch = Watch(tmp_path, folder)
    assert watch.look() == []
    folder.found.append(TraceFound(tmp_path / "new", 5, "kineto"))
    assert watch.look() == []
    folder.found[1] = TraceFound(tmp_path / "new", 9, "kineto")
    assert watch.look() == []
    assert [one.path.name for one in watch.look()] == ["new"]
    assert watch.look() == []


def test_the_clipboard_is_reached_through_tmux_and_screen() -> None:
    data = base64.b64encode(b"text").decode()
    assert sequence("text", {"TERM": "xterm"}) == f"\x1b]52;c;{data}\a"
    assert sequence("text", {"TERM": "screen"}) == f"\x1bP\x1b]52;c;{data}\a\x1b\\"
    assert sequence("text", {"TERM": "linux"}) is None
    assert sequence("x" * (LONGEST + 1), {"TERM": "xterm"}) is None


async def test_without_a_clipboard_a_copy_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "linux")
    app = app_on("a", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "y")
        assert "written to" in said(app)
        assert "softmax" in Path("warplens-kernels-normal.md").read_text()


EVIL = "\x1b]0;PWNED\x07[red]x[/red]\x9b2J\u202e" + "y" * 3000


async def test_nothing_recorded_reaches_the_screen_raw_or_acts() -> None:
    shelf = Shelf(a=small_run(EVIL, warnings=(EVIL,)), bad=EVIL)
    app = app_on("a", "bad", shelf=shelf, view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        seen = [screen_text(app)]
        steps = (["w"], ["escape", "enter"], ["escape", "f", *"[/nope]", "enter"], ["slash", *"[x"], ["escape", "e"])
        for keys in steps:
            await press(pilot, *keys)
            seen.append(screen_text(app))
        shown = "\n".join(seen)
        assert "[red]" in shown
        assert not [char for char in shown if char != "\n" and (ord(char) < 32 or char in "\x7f\x9b\u202e")]


async def test_a_view_that_fails_says_so_and_the_app_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    from warplens.analysis.views import launches

    def broken(runs: object, options: object) -> Answer:
        raise RuntimeError("secret name from the trace")

    monkeypatch.setattr(launches, "VIEW", View("launches", launches.COLUMNS, broken))
    app = app_on("a", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "4")
        assert "This view failed: RuntimeError" in screen_text(app)
        await press(pilot, "3")
        assert "softmax_warp_forward" in screen_text(app)


def test_a_crash_tells_places_and_no_data() -> None:
    try:
        raise ValueError("secret name from the trace")
    except ValueError as error:
        text = crash_report(error)
    assert "ValueError" in text and "test_comfort.py" in text and "secret" not in text


def test_an_export_never_overwrites_what_it_named_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from warplens.analysis.query.ask import ask
    from warplens.analysis.views import view

    monkeypatch.chdir(tmp_path)
    table = ask(view("kernels"), (small_run("a/b: c"),))
    assert [exported(table, "kernels", None).name for _ in range(3)] == [
        "warplens-kernels-a-b-c.md", "warplens-kernels-a-b-c-2.md", "warplens-kernels-a-b-c-3.md",
    ]


async def test_an_export_says_the_device_and_process_it_is_limited_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    limits = {"device": "GPU 0", "cycle_anchor": "step", "warm_up": False}
    app = app_on("a", view="timeline", options=limits)
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "e", "m")
        await settled(pilot)
        await press(pilot, "3", "e")
        await settled(pilot)
        for name in ("timeline", "kernels"):
            (text,) = (file.read_text() for file in tmp_path.glob(f"warplens-{name}-*.md"))
            assert "*GPU 0, " in text and "--device 'GPU 0' --cycle-anchor step --no-warm-up" in text


@pytest.mark.parametrize("settings", [Settings(ascii=True), Settings(theme="monochrome"), Settings(theme="terminal")])
async def test_plain_terminals(settings: Settings) -> None:
    app = app_on("a", "b", settings=settings, view="cycles")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await press(pilot, "1", "3", "?", "escape", "2")
        assert "Cycles" in screen_text(app)


@pytest.mark.parametrize("size", [
    (20, 5), (200, 60), *(pytest.param(size, marks=pytest.mark.deep) for size in ((80, 24), (40, 12)))])
async def test_any_size_at_any_time(size: tuple[int, int]) -> None:
    app = app_on("a", "b", view="overview")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await pilot.resize_terminal(*size)
        await settled(pilot)
        await press(pilot, "2", "3", "enter", "escape", "7", "?")
        await pilot.resize_terminal(120, 40)
        await settled(pilot)
        await press(pilot, "escape", "3")
        assert "▐3 Kernels▌" in screen_text(app)


async def test_details_closed_before_their_answer_came() -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        for _ in range(3):
            await pilot.press("enter", "escape")
        await settled(pilot)
        assert app.is_running and app.screen is app.main


async def test_a_file_with_two_runs_opens_as_their_diff() -> None:
    app = app_on("both", shelf=Shelf(both=(small_run("worker 0"), small_run("worker 1", slow=2.0))))
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "▐7 Diff▌" in screen_text(app) and "worker 0" in screen_text(app)


async def test_a_closed_panel_leaves_nothing_behind() -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        gc.freeze()  # only what comes from here on is counted
        kept = []
        for _ in range(5):
            await press(pilot, "question_mark", "escape")
            gc.collect()
            kept.append(sum(isinstance(one, HelpScreen | StylesCache) for one in gc.get_objects()))
        assert min(kept[2:]) <= kept[1], "each time more is left"


async def test_details_show_what_only_the_file_has() -> None:
    asked: list[tuple[Any, ...]] = []

    def recorded(info: Any, rank: int | None, offset: int, name: str) -> dict[str, Any]:
        asked.append((info.label, rank, offset, name))
        if len(asked) > 1:
            raise OSError("the file is gone \x1b[31m")
        return {"Input Dims": [[8, 16], [16, 32]], "\x1b]0;t\x07": "[red]x"}

    run = small_run()
    run = run.with_tables(kernels=run.kernels.with_columns(offset=pl.lit(77)))
    app = app_on("a", shelf=Shelf(a=run), view="launches")
    app.recorded = recorded
    async with app.run_test(size=(120, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "enter")
        text = screen_text(app)
        assert asked == [("normal", None, 77, NAMES[0])]
        assert "Input Dims  [[8, 16], [16, 32]]" in text and "[red]x" in text and "\x1b" not in text
        await press(pilot, "escape", "down", "enter")
        assert "the file is gone ␛[31m" in screen_text(app)


async def test_the_run_named_is_the_one_whose_rows_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_on("a", "b", view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        held: list[Any] = []
        pane = app.main.pane
        assert pane is not None and "A and B" in screen_text(app)
        monkeypatch.setattr(pane.runner, "ask", lambda job, then: held.append((job, then)))
        await press(pilot, "x")
        assert "A and B" in screen_text(app) and "run A" not in screen_text(app)
        await press(pilot, "enter")
        assert isinstance(app.screen, DetailsScreen)
        assert "Longest · B" in str(app.screen.lines.render()), "details of both, as the row is"
        await press(pilot, "escape")
        ((job, then),) = held
        then(job())
        await settled(pilot)
        assert "run A" in screen_text(app)


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (20, 6), (20, 3), (8, 2)])
async def test_turning_pages_of_the_commands_at_any_size(size: tuple[int, int]) -> None:
    app = app_on("a", view="kernels")
    async with app.run_test(size=(80, 24)) as pilot:
        await settled(pilot)
        await pilot.resize_terminal(*size)
        await pilot.press("colon", "pageup", "pagedown", "pageup", "v", "pageup", "down", "pageup", "x", "z")
        await pilot.resize_terminal(20, 3)
        await pilot.press("backspace", "pageup", "pagedown", "pageup")
        await press(pilot, "escape", "escape")
        assert app.is_running


async def test_kinds_of_copies_are_not_counted_as_copies() -> None:
    app = app_on("a", view="copies")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        assert "1 of 1 kinds of copies" in screen_text(app)


async def test_no_pane_keeps_a_recording_that_was_closed() -> None:
    """The side panel of each view held the recordings of its last rows until the view was opened again."""
    shelf = Shelf(a=small_run("first"), b=small_run("second"))
    app = app_on("a", shelf=shelf, view="kernels")
    async with app.run_test(size=(200, 60)) as pilot:
        await settled(pilot)
        await press(pilot, "j", "2", "1")
        await settled(pilot)
        del shelf.runs["a"]
        shelf.listeners.clear()
        app.post_message(RunsRequest(["b"]))
        await settled(pilot)
        gc.collect()
        assert not [one for one in gc.get_objects() if isinstance(one, Trace) and one.info.label == "first"]
