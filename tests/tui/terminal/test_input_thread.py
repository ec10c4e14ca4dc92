"""The input thread: it looks at the clock while a sequence may go on, then sleeps until input or the end."""

from __future__ import annotations

import os
import select
import threading
from queue import SimpleQueue
from typing import Any

import pytest
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key

from warplens.tui.terminal import input_thread as quiet_module
from warplens.tui.terminal.input_thread import LOOKS, quiet


def test_nobody_looks_for_keys_that_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = quiet(LinuxDriver)
    driver = made.__new__(made)
    keys: SimpleQueue[Any] = SimpleQueue()
    waits: SimpleQueue[float | None] = SimpleQueue()
    driver._debug, driver.process_message = False, keys.put
    (driver.fileno, keyboard), (driver._ear, driver._bell) = os.pipe(), os.pipe()
    real = select.select

    def recorded(*arguments: Any) -> Any:
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
