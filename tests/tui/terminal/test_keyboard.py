"""Keys handled one after another, and pastes as text wherever reads cut them."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import Context
from pathlib import Path
from typing import Any

import pytest
from app_runs import Shelf, app_on, said, screen_text, settled, small_run
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual._context import active_app
from textual.widgets import Input

from warplens.tui.app.app import WarplensApp
from warplens.tui.overlays.palette import Palette
from warplens.tui.terminal.keyboard import LONGEST, MOST_EARLY, Pastes, TypeAhead


def parts(*reads: str) -> list[tuple[bool, str]]:
    """What the reads are split into, neighbouring keys joined and the marks removed."""
    pastes, out = Pastes(), list[tuple[bool, str]]()
    for read in reads:
        for is_paste, text in pastes.feed(read):
            if not is_paste and out and not out[-1][0]:
                out[-1] = (False, out[-1][1] + text)
            else:
                out.append((is_paste, text))
    marks = ("\x1b[200~", "\x1b[201~")
    cleaned = [(paste, text if paste else text.replace(marks[0], "").replace(marks[1], "")) for paste, text in out]
    return [part for part in cleaned if part[0] or part[1]]


@pytest.mark.parametrize(("inside", "text"), [
    ("log \x1b[31mqq\x1b[0m", "log [31mqq[0m"), ("a\r\nb\nc\rd\te", "a b c d e"),
    ("a\x1b[200~q\x1b[201q", "a[200~q[201q"),
    ("".join(map(chr, range(1, 9))) + "x\x7f\x9b\x85y\u202e", "x y"), ("größe\u3000µ", "größe\u3000µ"),
])
def test_a_paste_is_text_whatever_it_holds(inside: str, text: str) -> None:
    assert parts(f"j\x1b[200~{inside}\x1b[201~k") == [(False, "j"), (True, text), (False, "k")]


@given(st.lists(st.integers(0, 30), max_size=6))
def test_the_marks_may_be_cut_anywhere(cuts: list[int]) -> None:
    data, places = "j\x1b[200~a\x1b[31m\x1b[2b\x1b[201~k", sorted(cuts)
    reads = [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
    assert parts(*reads) == [(False, "j"), (True, "a[31m[2b"), (False, "k")]


def test_escape_before_a_pause_begins_no_mark() -> None:
    pastes = Pastes()
    assert list(pastes.feed("\x1b")) == [(False, "\x1b")]
    pastes.pause()
    assert list(pastes.feed("[200~j")) == [(False, "[200~j")] and not pastes.inside


def test_a_paste_without_an_end_is_kept_so_far() -> None:
    pastes = Pastes()
    assert list(pastes.feed("\x1b[200~ab\x1b[20")) == [(False, "\x1b[200~\x1b[201~")] and pastes.inside
    assert pastes.rest() == "ab" and not pastes.inside
    assert len(parts("\x1b[200~" + "x" * (2 * LONGEST) + "\x1b[201~")[0][1]) == LONGEST


def keys(text: str) -> Iterator[events.Key]:
    for char in text:
        yield events.Key({"\r": "enter", ":": "colon", "/": "slash"}.get(char, char), char)


async def typed(app: WarplensApp, text: str) -> None:
    """All keys at once, as from one packet; until the last one has been handled."""
    ahead = TypeAhead(app)
    for key in keys(text):
        ahead.take(key)
    assert ahead._task is not None
    await ahead._task


@pytest.mark.parametrize(("text", "shown"), [
    ("3/gemm", "/gemm"), ("3fmemcpy\r", "1 of"), ("4/mem", "/mem"), ("0select 41+1 as answer\r", " 42"),
    ("3kkjj/gemm", "/gemm"), (":kern", "Kernels"), ("30select 1\r3", "Kernels"), ("03003", "sql"),
])
async def test_keys_of_one_packet_reach_what_the_keys_before_them_opened(text: str, shown: str) -> None:
    app = app_on("run", shelf=Shelf(run=small_run()), view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        await typed(app, text)
        await settled(pilot)
        assert shown in screen_text(app)


async def test_keys_that_only_open_something_wait_for_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warplens.tui.app.app.FIRST_ROWS", 3600.0)
    app = app_on("run", shelf=Shelf())  # a recording that never arrives
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        ahead = TypeAhead(app)
        for key in keys("3:kern"):
            ahead.take(key)
        assert ahead._task is not None
        await ahead._task
        assert isinstance(app.screen, Palette) and app.screen.query_one(Input).value == "kern"
        assert app.main.pane is not None and app.main.pane.entry.name == "kernels"
        app.screen.dismiss()
        await pilot.pause()
        ahead.take(events.Key("f", "f"))
        await pilot.pause()
        assert len(ahead._held) == 1 and not app.main.prompt.display
        ahead.end()


async def test_keys_from_the_input_thread_are_obeyed_as_the_app() -> None:
    """A timer set without an active app ends it: a frame after keys typed ahead, held for the terminal's reply."""
    app, active = app_on("run", shelf=Shelf(run=small_run()), view="kernels"), list[object]()
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        app.caught_up = lambda: active.append(active_app.get(None))  # type: ignore[method-assign]
        ahead = TypeAhead(app)
        for key in keys("jj"):
            Context().run(ahead.take, key)
        assert ahead._task is not None
        await ahead._task
        assert active == [app]


async def test_a_search_typed_before_the_rows_goes_to_its_row() -> None:
    app = app_on("run", shelf=Shelf(run=small_run()), view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        app.main.open_view("kernels")
        pane: Any = None
        while pane is None or not pane.is_mounted:
            await pilot.pause()
            pane = app.main.pane
        pane.shown = None
        pane.search("memcpy")
        await settled(pilot)
        app.main.pane.query_if_stale(force=True)
        await settled(pilot)
        assert "memcpy" in str(pane.row().get("name", "")).lower()


async def test_interrupts_never_wait_and_discard_what_was_typed_before_them() -> None:
    app = app_on("run", shelf=Shelf(run=small_run()), view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        ahead, rung = TypeAhead(app), list[str]()
        for key in keys("fgemm"):
            ahead.take(key)
        ahead.take(events.Key("ctrl+c", "\x03"))
        assert not ahead._held
        app.begun = False  # nothing there that could obey a key
        app.bell = lambda: rung.append("bell")  # type: ignore[method-assign]
        for key in keys("j" * (MOST_EARLY + 2)):
            ahead.take(key)
        assert len(ahead._held) == MOST_EARLY and rung == ["bell"] * 2
        ahead.end()


async def test_a_copy_asked_for_before_the_rows_follows_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "dumb")
    app = app_on("run", shelf=Shelf(run=small_run()), view="kernels")
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        for key, words in (("y", "written to"), ("e", "Written to")):
            app.main.pane.query_if_stale(force=True)  # its rows are to come
            await pilot.press(key)
            await settled(pilot)
            assert words in said(app)
        app.main.pane.query_if_stale(force=True)
        await pilot.press("E")  # the prompt opens at once, or the name would be obeyed as keys
        assert app.main.prompt.display
