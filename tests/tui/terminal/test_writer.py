"""What travels to a real terminal: how many bytes, how many frames, and nothing that acts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from screen import Terminal
from terminal import ANSWER, QUESTION, Session, list_app
from textual.geometry import Offset, Size

from warplens.tui.terminal.writer import Wired

ROWS = "50000"


@pytest.fixture(scope="module")
def running() -> Iterator[Session]:
    session = list_app(ROWS)
    session.settle(b"26.50")
    yield session
    session.close()


def played(session: Session) -> Terminal:
    terminal = Terminal(120, 40)
    terminal.play(session.since(0).decode())
    return terminal


def test_bytes_of_a_cursor_step_a_scroll_and_a_page(running: Session) -> None:
    """120x40, a kernels table with bars and sparklines: the ceilings of DESIGN §8."""
    assert [n for n in (len(running.frame(b"j")) for _ in range(10)) if n > 450] == []
    assert [n for n in (len(running.frame(b"\x1b[6~")) for _ in range(5)) if n > 8000] == []
    running.frame(b"g")
    for _ in range(38):
        running.frame(b"j")
    assert [n for n in (len(running.frame(b"j")) for _ in range(5)) if n > 600] == []
    assert played(running).text()[-2].startswith("│▌"), "\n".join(played(running).text())


def test_the_terminal_shows_what_was_meant(running: Session) -> None:
    """After all kinds of movement the difference has brought the same picture as painting all of it."""
    for key in (b"G", b"k", b"\x1b[5~", b"g", b"j", b"l", b"l", b" ", b"\x15", b"r"):
        running.frame(key)
    by_difference = played(running).text()
    other = list_app(ROWS, TEXTUAL_ANIMATIONS="none")
    try:
        other.settle(b"26.50")
        for key in (b"j", b"l", b"l", b" ", b"g", b"r"):
            other.frame(key)
        anew = played(other).text()
    finally:
        other.close()
    assert [line[7:] for line in by_difference[2:]] == [line[7:] for line in anew[2:]]


def test_a_key_that_changes_nothing_sends_nothing(running: Session) -> None:
    running.frame(b"G")
    before = running.sent
    running.send(b"jjjG\x1b[6~j")  # the last row is the last row
    answer = running.frame(b"k")
    assert running.sent - before == len(answer)


def is_painted_afresh(session: Session, width: int, height: int) -> None:
    """In another size."""
    start = session.sent
    session.resize(width, height)
    session.until(lambda data: b"\x1b[2J" in data and data.endswith(QUESTION), start)
    terminal = Terminal(width, height)
    terminal.play(session.since(start).decode())
    assert "kernel" in terminal.text()[1] and terminal.text()[height - 1].strip()


def test_no_frame_queues_up_behind_a_terminal_that_is_slow() -> None:
    """Sixty pages in one packet: far fewer frames than pages, and the last one shows the end.

    Another size is painted afresh then.
    """
    session = list_app(ROWS)
    try:
        session.settle(b"26.50")
        session.answers = False
        start, questions = session.sent, session.questions
        session.send(b"\x1b[6~" * 60 + b"gj")
        session.until(QUESTION, start)
        session.answers = True
        session.send(ANSWER)
        session.until(lambda data: session.cursor_on(2), start)
        assert session.questions - questions < 30
        is_painted_afresh(session, 80, 24)
    finally:
        session.close()


def test_a_terminal_that_does_not_know_the_question_is_served_too() -> None:
    session = list_app(ROWS, answers=False)
    try:
        session.until(b"26.50")
        start = session.sent
        session.send(b"G")
        session.until(re.compile(rb"1,29[0-2] ").search, start)
        session.send(b"g")
        session.until(lambda data: data.count(b"26.50") >= 1, start)
        assert b"26.50" in session.since(start)
    finally:
        session.close()


def test_names_do_nothing_to_the_terminal() -> None:
    """The emulator fails on any control character and any sequence that is none of ours."""
    session = list_app(ROWS, "hostile")
    try:
        session.settle(b"markup")
        for key in (b"j", b"\x1b[6~", b"G", b"g"):
            session.frame(key)
        shown = played(session)
        text = "\n".join(shown.text())
        assert "[red]markup[/red]" in text and "[/nope]" in text
        data = session.since(0)
        for bad in (b"\x1b]0;", b"\x1b[31mred", b"\xc2\x9b", b"\x08", "\u202e".encode()):
            assert bad not in data
    finally:
        session.close()


def test_the_cursor_is_sent_to_no_column_beside_the_screen() -> None:
    """A prompt may be cut off on the left, and is then left of the first column itself."""
    asked: list[tuple[int, int]] = []

    def difference(erase: bool, cursor: tuple[int, int]) -> str:
        asked.append(cursor)
        return ""

    for place in ((-9, 0), (3, 1), (70, 2)):
        Wired._paint(SimpleNamespace(
            driver=object(), size=Size(5, 3), cursor_position=Offset(*place), _sent_at=None, _erase=False,
                is_behind=False,
            _picture=SimpleNamespace(width=5, height=3, difference=difference)))
    assert asked == [(0, 0), (3, 1), (4, 2)]
