"""The input thread: it looks at the clock while a sequence may go on, then sleeps until input or the end."""

from __future__ import annotations

import os
import select
import threading
from queue import SimpleQueue
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key

from warplens.tui.terminal import input_thread as quiet_module
from warplens.tui.terminal.input_thread import INTRODUCERS, LOOKS, Keys, quiet


def test_nobody_looks_for_keys_that_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = quiet(LinuxDriver)
    driver = made.__new__(made)
    keys: SimpleQueue[Any] = SimpleQueue()
    waits: SimpleQueue[float | None] = SimpleQueue()
    driver._debug, driver.process_message = False, keys.put
    (driver.fileno, keyboard), (driver._ear, driver._bell) = os.pipe(), os.pipe()
    real = select.select

    def recorded(*arguments: Any) -> Any:
        if driver.fileno in arguments[0]:  # and not a thread of another test
            waits.put(arguments[3])
        return real(*arguments)

    monkeypatch.setattr(quiet_module.select, "select", recorded)
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
    os.write(driver._bell, b"!")
    thread.join(15)
    assert not thread.is_alive() and waits.empty() and keys.empty()
    for end in (driver.fileno, keyboard, driver._ear, driver._bell):
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
