"""The hooks into Textual: in one file, for the versions tested, with Textual's own way for all others."""

from __future__ import annotations

import ast
import os
import re
import select
import threading
import tomllib
from pathlib import Path
from queue import SimpleQueue
from typing import Any, ClassVar

import pytest
import textual
from hypothesis import given
from hypothesis import strategies as st
from terminal import QUESTION, list_app
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key
from textual.widgets import OptionList

from warplens.tui.overlays.palette import Palette as CommandPalette
from warplens.tui.terminal import textual_hooks
from warplens.tui.terminal.textual_hooks import INTRODUCERS, LOOKS, Keys, quiet


def test_nobody_looks_for_keys_that_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = quiet(LinuxDriver)
    driver = made.__new__(made)
    keys: SimpleQueue[Any] = SimpleQueue()
    waits: SimpleQueue[float | None] = SimpleQueue()
    driver._debug, driver.process_message = False, keys.put
    (driver.fileno, keyboard), (driver._wake_read, driver._wake_write) = os.pipe(), os.pipe()
    real = select.select

    def recorded(*arguments: Any) -> Any:
        if driver.fileno in arguments[0]:  # and not a thread of another test
            waits.put(arguments[3])
        return real(*arguments)

    monkeypatch.setattr(textual_hooks.select, "select", recorded)
    thread = threading.Thread(target=driver.run_input_thread, daemon=True)
    thread.start()

    def key() -> str:
        event = keys.get(timeout=15)
        assert isinstance(event, Key)
        return event.key

    assert waits.get(timeout=15) is None
    for typed, named in ((b"j", "j"), ("µ".encode(), "µ"), (b"\x1b[6~", "pagedown"), (b"\x1b", "escape")):
        os.write(keyboard, typed)
        assert key() == named
        assert [waits.get(timeout=15) for _ in range(LOOKS)].count(None) == 0
        assert waits.get(timeout=15) is None  # asleep, without any limit
    os.write(driver._wake_write, b"!")
    thread.join(15)
    assert not thread.is_alive() and waits.empty() and keys.empty()
    for end in (driver.fileno, keyboard, driver._wake_read, driver._wake_write):
        os.close(end)


def test_a_driver_nobody_knows_is_left_alone() -> None:
    class Other(LinuxDriver):
        pass

    made: Any = quiet(LinuxDriver)
    assert quiet(Other) is Other and issubclass(made, LinuxDriver) and made is not LinuxDriver


def pressed(parser: XTermParser, data: str) -> list[str]:
    return [event.key for event in parser.feed(data) if isinstance(event, Key)]


@given(st.characters(codec="utf-8").filter(lambda char: char not in f"\x1b{INTRODUCERS}"))
def test_escape_and_a_key_in_one_packet_are_escape_and_that_key(char: str) -> None:
    assert pressed(Keys(), "\x1b" + char) == ["escape", *pressed(XTermParser(), char)]


@given(st.lists(st.sampled_from(["j", "8", "\x1b[A", "\x1b[6~", "\x1bOP", "\x1b[15;2~", "\r"])))
def test_keys_that_are_sequences_stay_whole(keys: list[str]) -> None:
    assert pressed(Keys(), "".join(keys)) == [key for one in keys for key in pressed(XTermParser(), one)]


def test_a_sequence_that_never_goes_on_was_escape_and_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    parser, now = Keys(), [0.0]
    monkeypatch.setattr("textual._parser.get_time", lambda: now[0])
    assert pressed(parser, "\x1b[") == []
    now[0] = 1.0
    assert [event.key for event in parser.tick() if isinstance(event, Key)] == ["escape", "left_square_bracket"]


ROOT = Path(__file__).resolve().parents[3]
FOREIGN = {"_exit", "_run_exitfuncs"}  # of the standard library
RICH = {"_attributes", "_set_attributes", "_colors"}  # of rich, in screen_diff alone


def private_names(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Underscore attributes read in a module, and those it defines itself."""
    read, own = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr):
            (own if isinstance(node.ctx, ast.Store) else read).add(node.attr)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            own.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
    return read, own


def test_no_other_file_uses_a_private_name_of_textual() -> None:
    files = {path: ast.parse(path.read_text()) for path in (ROOT / "tui").rglob("*.py")
             if path.name != "textual_hooks.py"}
    names = {path: private_names(tree) for path, tree in files.items()}
    own = set.union(*(defined for _, defined in names.values()))
    assert {path.name: odd for path, (read, _) in names.items()
            if (odd := read - own - FOREIGN - (RICH if path.name == "screen_diff.py" else set()))} == {}
    modules = [node.module for tree in files.values() for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert [name for name in modules if name and re.match(r"textual\b.*\._", name)] == []


def test_the_versions_in_pyproject_are_those_the_hooks_know() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest, newest = (".".join(map(str, version)) for version in (textual_hooks.OLDEST, textual_hooks.NEWEST))
    wanted = next(one for one in project["dependencies"] if one.startswith("textual"))
    assert wanted == f"textual>={oldest},<9"
    assert f"textual<={newest}" in project["optional-dependencies"]["dev"], "the tests run with a version that fits"
    assert textual_hooks.fits()


def test_the_version_is_read_off_what_the_installer_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textual, "__version__", "99.0.0", raising=False)
    assert not textual_hooks.within(tmp_path), "no folder: it is asked itself"
    note = tmp_path / "textual-99.0.0.dist-info"
    note.mkdir()
    for version, fits in (("8.2.4", False), ("8.2.5", True), ("8.2.8", True), ("8.3.0", False), ("8.2.8rc1", False)):
        note = note.rename(tmp_path / f"textual-{version}.dist-info")
        assert textual_hooks.within(tmp_path) == fits, version


def test_with_another_version_textual_paints_and_reads_keys() -> None:
    """The same list, moved in, painted by Textual: it asks nothing and ends each frame itself."""
    session = list_app("500", "plain")
    try:
        session.until(b"26.50")
        session.insist(b"13.25", b"G", b"g")
        session.send(b"j")
        session.until(lambda data: b"\xe2\x96\x8c" in data)
        assert session.since(0).count(QUESTION) <= 1, "Textual's own, at the start"
        start = session.sent
        session.resize(100, 30)
        session.until(lambda data: len(data) > 3000, start)
    finally:
        session.close()


async def test_an_app_without_the_hooks_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(textual_hooks, "fits", lambda: False)
    app = textual_hooks.HookedApp()
    assert not app.by_difference and quiet.__wrapped__(LinuxDriver) is LinuxDriver
    for name in ("_driver", "_batch_count", "_sync_available"):
        monkeypatch.delattr(app, name)
    assert app.driver is None and not app.painting_is_held and not app.synchronised_output and not app.paints


async def test_keys_and_clicks_before_the_palette_has_its_list_do_nothing() -> None:
    class Stale:
        class style:
            meta: ClassVar = {"option": 3}

    palette = CommandPalette()
    palette._action_command_list("page_down")
    palette._action_cursor_down()
    entries = OptionList()
    await entries._on_click(Stale())  # type: ignore[arg-type]
    assert entries.highlighted is None


def test_what_textual_no_longer_has_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    class Palette:
        pass

    assert textual_hooks.tolerant(Palette) is Palette
    monkeypatch.setattr(textual_hooks, "StylesCache", object)
    textual_hooks.drop_style_cache()
