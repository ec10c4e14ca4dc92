"""However the app ends or stops, the terminal is given back as it was, and nothing is left running."""

from __future__ import annotations

import contextlib
import ctypes
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
_TGKILL = 234 if os.uname().machine == "x86_64" else 131  # arm64 and others
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


@pytest.mark.parametrize("number", [signal.SIGTERM, *(pytest.param(one, marks=pytest.mark.deep) for one in (
    signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM  # minded in the same loop
))])
def test_a_signal_that_ends_it_gives_the_terminal_back(app: Callable[..., Session], number: int) -> None:
    session = app()
    session.until_shown("launch")
    os.kill(session.pid, number)
    assert os.waitstatus_to_exitcode(ended(session)) == 128 + number
    assert left_on(session.ended()) == set()
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


@pytest.mark.parametrize("stops", [
    [], [signal.SIGSTOP], pytest.param([signal.SIGTSTP], marks=pytest.mark.deep),
], ids=["running", "SIGSTOP", "SIGTSTP"])
def test_one_that_is_continued_takes_keys_and_ends(app: Callable[..., Session], stops: list[int]) -> None:
    session = app()
    session.until_shown("launch")
    for _ in range(2):
        for number in stops:
            os.kill(session.pid, number)
            assert os.WIFSTOPPED(ended(session, os.WUNTRACED))
        before = session.sent
        os.kill(session.pid, signal.SIGCONT)
        session.until(b"\x1b[?1049h", before)
        session.insist(b"Help: ", b"?")
        session.send(b"\x1b")  # and seen closed: the next ? would paint nothing over an open one
        session.until_shown("not Help: ")
    assert quit_it(session) == 0
    assert left_on(session.ended()) == set()


def test_one_continued_while_it_ends_does_not_take_the_terminal_again(app: Callable[..., Session]) -> None:
    session = app()
    session.until_shown("launch")
    for number in (signal.SIGTERM, signal.SIGCONT, signal.SIGCONT):
        os.kill(session.pid, number)
    ended(session)
    assert left_on(session.ended()) == set()
    assert termios.tcgetattr(session._fd)[3] & (termios.ICANON | termios.ECHO) == termios.ICANON | termios.ECHO


@pytest.mark.skipif(sys.platform != "linux", reason="finds its terminal in /proc")
def test_a_terminal_that_takes_nothing_more_does_not_keep_it(app: Callable[..., Session]) -> None:
    session = app()
    session.until_shown("launch")
    terminal = os.open(f"/proc/{session.pid}/fd/0", os.O_RDWR | os.O_NOCTTY)
    termios.tcflow(terminal, termios.TCOOFF)
    os.kill(session.pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(ended(session)) == 128 + signal.SIGTERM
    os.close(terminal)


@pytest.mark.parametrize("where", ["2>/dev/null", "</dev/null"])
def test_it_needs_no_more_than_one_stream_on_the_terminal(where: str, tmp_path: Path) -> None:
    session = Session(["sh", "-c", f'exec "$0" "$@" {where}', *WARPLENS])
    try:
        session.until_shown("launch")
        assert quit_it(session) == 0
        assert left_on(session.ended()) == set()
    finally:
        session.close()


def test_what_is_typed_before_it_is_there_is_not_lost(app: Callable[..., Session]) -> None:
    session = app()
    session.send(b"q")
    assert ended(session) == 0


def test_escape_and_a_view_in_one_packet_close_an_overlay_and_go_there(app: Callable[..., Session]) -> None:
    session = app()
    session.until_shown("launch")
    session.insist(b"Help: ", b"?")
    session.send(b"\x1b3")
    session.until_shown("not Help: ", "kernels, 100% of time")
    assert quit_it(session) == 0


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


@pytest.mark.parametrize("storm", [pytest.param(False, marks=pytest.mark.deep), True], ids=["quit", "in a storm"])
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
        end, copy = time.monotonic() + LIMIT, None
        while copy is None and time.monotonic() < end:  # not just any file: `tempfile` tries the place with one
            select.select([], [], [], 0.02)
            copy = next((tmp_path / "tmp").glob("*/standard-input"), None)
        assert copy is not None, session.screen()
        for lines in range(1, 60 if storm else 1):
            session.resize(120 + lines, lines)
        quit_it(session)
    finally:
        session.close()
        os.close(writer)
    assert list((tmp_path / "tmp").iterdir()) == []
    assert [entry for entry in (tmp_path / "cache").rglob("*") if spill.is_temporary(entry)] == []


@pytest.fixture
def pager(app: Callable[..., Session], tmp_path: Path) -> tuple[Session, Path]:
    """The app with a program in its pager, asked for before there are rows, that says when it runs and is not to end by
    itself; and the file that it appends to at ^C."""
    mark, program = tmp_path / "interrupted", tmp_path / "pager.py"
    program.write_text(
        "import pathlib, signal, sys, time\n"
        f"signal.signal(signal.SIGINT, lambda *_: pathlib.Path({str(mark)!r}).touch())\n"
        "print('the pager runs', flush=True)\n"
        f"while not pathlib.Path({str(tmp_path / 'go')!r}).exists():\n    time.sleep(0.01)\n")
    session = app(PAGER=f"{sys.executable} {program}")
    session.send(b"|")
    session.until(b"the pager runs")
    return session, mark


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_ends_it_and_its_pager(pager: tuple[Session, Path], number: signal.Signals) -> None:
    session, _ = pager
    os.kill(session.pid, number)
    assert os.waitstatus_to_exitcode(ended(session)) == 128 + number
    assert not left_on(session.ended())


def test_a_signal_that_another_thread_gets_ends_it_as_well(pager: tuple[Session, Path]) -> None:
    session, _ = pager
    threads = sorted(int(name) for name in os.listdir(f"/proc/{session.pid}/task")) if sys.platform == "linux" else []
    if len(threads) < 2:
        pytest.skip("signals one thread only where /proc lists them")
    ctypes.CDLL(None).syscall(_TGKILL, session.pid, threads[-1], signal.SIGHUP)
    assert os.waitstatus_to_exitcode(ended(session)) == 128 + signal.SIGHUP


def test_an_interrupt_is_the_pagers_and_the_app_goes_on(pager: tuple[Session, Path]) -> None:
    session, mark = pager
    session.send(b"\x03")
    end = time.monotonic() + LIMIT
    while not mark.exists() and time.monotonic() < end:
        select.select([], [], [], 0.02)
    start = session.sent
    (mark.parent / "go").touch()
    session.until(b"launch", start)
    assert quit_it(session) == 0
