"""However the app ends or stops, the terminal is given back as it was, and nothing is left running."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from terminal import LIMIT, Session

from warplens.loaders.ingest import spill

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
SAMPLE = str(Path(__file__).resolve().parents[3] / "samples" / "kernel_table_unet_training.txt")
WARPLENS = [sys.executable, "-m", "warplens", SAMPLE, "--view", "launches", "--no-cache"]
SWITCH = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
DEEP = "WARPLENS_EXPLORE" in os.environ
WRAP, CURSOR = b"7", b"25"
"""Modes a terminal has on at first."""


@pytest.fixture
def app() -> Iterator[Callable[..., Session]]:
    opened: list[Session] = []

    def start(**options: Any) -> Session:
        opened.append(Session(WARPLENS, **options))
        return opened[-1]

    yield start
    for session in opened:
        session.close()


def left_on(data: bytes) -> set[bytes]:
    """The modes that differ from those of a terminal that was just opened."""
    on = {WRAP, CURSOR}
    for modes, switch in SWITCH.findall(data):
        for mode in modes.split(b";"):
            (on.add if switch == b"h" else on.discard)(mode)
    keyboard = data.count(b"\x1b[>") - data.count(b"\x1b[<")
    return (on ^ {WRAP, CURSOR}) | ({b"keyboard"} if keyboard else set())


def ended(session: Session, flags: int = 0) -> int:
    """The status of the process once it has ended, or stopped where that is asked for."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        pid, status = os.waitpid(session.pid, os.WNOHANG | flags)
        if pid:
            return status
        select.select([], [], [], 0.02)
    raise AssertionError("it goes on")


def quit_it(session: Session) -> int:
    """The status after as many q as it takes to close what is open."""
    while session.alive:
        with contextlib.suppress(OSError):
            session.send(b"q")
        with session._lock:
            session._lock.wait_for(lambda: not session.alive, 0.3)
    return ended(session)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, *(
    (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM) if DEEP else ()  # minded in the same loop as SIGQUIT
)])
def test_a_signal_that_ends_it_gives_the_terminal_back(app: Callable[..., Session], number: int) -> None:
    session = app()
    session.until_shown("launch")
    os.kill(session.pid, number)
    ended(session)
    data = session.ended()
    assert left_on(data) == set()
    assert termios.tcgetattr(session._fd)[3] & (termios.ICANON | termios.ECHO) == termios.ICANON | termios.ECHO


def test_a_suspended_one_gives_the_terminal_back_and_takes_it_again(app: Callable[..., Session]) -> None:
    session = app()
    session.until_shown("launch")
    session.send(b"\x1a")
    assert os.WIFSTOPPED(ended(session, os.WUNTRACED))
    assert session.until(lambda data: left_on(data) == set())
    assert termios.tcgetattr(session._fd)[3] & (termios.ICANON | termios.ECHO) == termios.ICANON | termios.ECHO
    before = session.sent
    os.kill(session.pid, signal.SIGCONT)
    session.until(b"\x1b[?1049h", before)
    quit_it(session)
    assert left_on(session.ended()) == set()


def test_a_terminal_of_one_row_or_column_does_not_end_it(app: Callable[..., Session]) -> None:
    session = app()
    session.until_shown("launch")
    for size in ((120, 1), (1, 1), (1, 40), (120, 2), (5, 3)):
        session.resize(*size)
        for keys in (b"j", b"?", b"\x1b", b"3", b"/a\x1b", b":", b"\x1b", b"1"):
            session.send(keys)
        session.resize(120, 40)
        session.insist(b"launch", b"\x1b", b"4")
    assert quit_it(session) == 0


def test_one_that_starts_on_a_terminal_of_one_row_goes_on(app: Callable[..., Session]) -> None:
    session = app(height=1)
    session.until(b"\x1b[?1049h")
    session.resize(120, 40)
    assert quit_it(session) == 0


def test_random_bytes_do_not_keep_it_when_its_terminal_is_gone(app: Callable[..., Session]) -> None:
    session = app()
    session.until_shown("launch")
    session.send(b"\x1b[\x1bP\x1b]\xff\xfe\x00\x1b[<999;9\x1b[200~never ended")
    session.reading.clear()
    os.close(session._fd)
    assert os.waitstatus_to_exitcode(ended(session)) == 128 + signal.SIGHUP


@pytest.mark.parametrize("storm", [False, True], ids=["quit", "quit in a storm of resizes"])
def test_quitting_while_it_loads_leaves_nothing_behind(tmp_path: Path, storm: bool) -> None:
    (tmp_path / "tmp").mkdir()
    fifo = tmp_path / "endless.json"
    os.mkfifo(fifo)
    writer = os.open(fifo, os.O_RDWR)  # somebody who never writes to the end
    os.write(writer, b'{"traceEvents": [')
    places = {"TMPDIR": str(tmp_path / "tmp"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    session = Session([sys.executable, "-m", "warplens", str(fifo)], **places)
    try:
        session.until_shown("endless")
        end = time.monotonic() + LIMIT
        while not any((tmp_path / "tmp").iterdir()) and time.monotonic() < end:
            select.select([], [], [], 0.02)
        assert any((tmp_path / "tmp").iterdir())
        for lines in range(1, 60 if storm else 1):
            session.resize(120 + lines, lines)
        quit_it(session)
    finally:
        session.close()
        os.close(writer)
    assert list((tmp_path / "tmp").iterdir()) == []
    assert [entry for entry in (tmp_path / "cache").rglob("*") if spill.is_temporary(entry)] == []
