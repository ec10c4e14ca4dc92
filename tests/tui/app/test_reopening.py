"""A path that was open before and has not changed is not read again, nor asked again."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from app_runs import Shelf, app_on, press, said, screen_text, settled, small_run

from warplens.loaders.ingest import store
from warplens.loaders.trace import Trace
from warplens.tui.panes.table import TablePane
from warplens.tui.session.opening import Run
from warplens.tui.session.reopening import MOST_RUNS, Reopening


def loaded(runs: list[Run]) -> list[Run]:
    for run in runs:
        run.state = "loaded"
    return runs


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text("{}")
    return path


@pytest.fixture
def other(trace: Path) -> Path:
    return Path(shutil.copy(trace, trace.with_name("other.json")))


@pytest.fixture
def shelf(trace: Path, other: Path) -> Shelf:
    return Shelf(**{str(trace): small_run("one"), str(other): small_run("two")})


def test_a_run_is_given_back_until_its_file_changes(trace: Path) -> None:
    known = Reopening()
    first, = loaded(known.runs([str(trace)]))
    assert known.runs([str(trace)]) == [first]
    os.utime(trace, ns=(1, 1))
    second, = known.runs([str(trace)])
    assert second is not first


def test_a_folder_is_read_again_when_a_file_in_it_changes(trace: Path) -> None:
    known, folder = Reopening(), str(trace.parent)
    first, = loaded(known.runs([folder]))
    assert known.runs([folder])[0] is first
    (trace.parent / "metrics.csv").write_text("a")
    assert known.runs([folder])[0] is not first


@pytest.mark.parametrize("state", ["stopped", "failed"])
def test_what_was_not_read_to_the_end_is_read_again(trace: Path, state: Any) -> None:
    known = Reopening()
    first, = known.runs([str(trace)])
    first.state = state
    assert known.runs([str(trace)])[0] is not first


def test_standard_input_and_what_is_not_there_are_never_the_same_again() -> None:
    known = Reopening()
    for path in ("-", "/nowhere/at/all"):
        first, = loaded(known.runs([path]))
        assert known.runs([path])[0] is not first


def test_a_run_beside_itself_is_two_runs(trace: Path) -> None:
    a, b = Reopening().runs([str(trace), str(trace)])
    assert a is not b


def test_only_the_last_runs_are_remembered(tmp_path: Path) -> None:
    known, paths = Reopening(), [tmp_path / f"{number}.json" for number in range(MOST_RUNS + 3)]
    for path in paths:
        path.write_text("{}")
    runs = [loaded(known.runs([str(path)]))[0] for path in paths]
    assert known.runs([str(paths[-2])])[0] is runs[-2]
    assert known.runs([str(paths[0])])[0] is not runs[0]


async def test_the_app_neither_reads_nor_asks_again_for_what_it_opens_again(
    trace: Path, other: Path, shelf: Shelf, questions: list[str]
) -> None:
    app = app_on(str(trace), shelf=shelf, view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        app.open_runs([str(other)])
        await settled(pilot)
        shelf.listeners.clear()
        questions.clear()
        for path in (trace, other):
            app.open_runs([str(path)])
            await settled(pilot)
    assert shelf.listeners == {} and questions == []


async def test_opening_other_runs_leaves_no_rows_of_those_before_on_any_pane(
    trace: Path, other: Path, shelf: Shelf
) -> None:
    """A new size reached the idle view between two recordings, with rows of the one that was gone."""
    app = app_on(str(trace), shelf=shelf, view="idle")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        app.main.open_view("kernels")
        await settled(pilot)
        panes = list(app.main.panes.query_children(TablePane))
        assert {"idle", "kernels"} <= {pane.entry.name for pane in panes if pane.shown is not None}
        app.open_runs([str(other)])
        assert [pane.entry.name for pane in panes if pane.shown is not None] == []
        await settled(pilot)


async def test_an_answer_that_comes_when_its_runs_were_closed_is_not_shown(
    trace: Path, other: Path, shelf: Shelf
) -> None:
    """The idle view drew the gaps of a run that was gone, and that ended the app."""
    app, closed = app_on(str(trace), shelf=shelf, view="idle"), threading.Event()
    del shelf.runs[str(other)]  # it takes for ever to open
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        pane = app.main.pane
        assert pane is not None and pane.shown is not None
        answer = pane.shown
        pane.runner.ask(lambda: answer if closed.wait(9) else None, pane._take)
        app.open_runs([str(other)])
        closed.set()
        for _ in range(5):
            await pilot.pause(0.05)
        assert pane.shown is None and app.session.traces == ()


def test_a_recording_given_twice_is_two_runs() -> None:
    one, other = (Run("a.csv", "ready", started=0.0) for _ in "ab")
    assert one != other and other not in [one]


async def test_a_recording_whose_cached_tables_are_removed_while_it_is_open_is_read_again(tmp_path: Path) -> None:
    read = 0

    def opened() -> Trace:
        nonlocal read
        read += 1
        store.write((small_run("one"),), tmp_path / f"{read}")
        return store.read(tmp_path / f"{read}")[0]

    class Again(Shelf):
        def __call__(self, path: str) -> Any:
            self.runs["a"] = opened()
            return super().__call__(path)

    app = app_on("a", shelf=Again())
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await press(pilot, "3")
        before = screen_text(app)
        shutil.rmtree(tmp_path / "1")
        await press(pilot, "8", "3", "4")
        assert (read, app.session.current) == (2, "launches")
        assert "The cached tables of a were removed: reading again." in said(app)
        assert "108 of 108 launches" in screen_text(app)
        await press(pilot, "3")
        assert screen_text(app) == before
