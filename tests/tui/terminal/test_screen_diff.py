"""Differences between pictures: played on a terminal they give the new picture, in few bytes."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import get_character_cell_size
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from screen import Terminal

from warplens.tui.terminal import sanitiser, screen_diff

WIDTH, HEIGHT = 24, 9
STYLES = [
    None, Style.parse("bold"), Style.parse("dim italic"), Style.parse("reverse"), Style.parse("#5fafff on #121212"),
    Style.parse("bold #123456 on #121212"), Style.parse("cyan"), Style.parse("underline on blue"),
    Style.parse("on #121212"),
]
TEXTS = st.text(st.sampled_from("ab  █▎核e\u0301é😀"), max_size=14)
LINES = st.lists(st.tuples(TEXTS, st.sampled_from(STYLES)), max_size=3)
RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def picture(lines: list[list[tuple[str, Style | None]]], pens: screen_diff.Pens) -> list[screen_diff.Row]:
    rows = []
    for line in [*lines, *([[]] * HEIGHT)][:HEIGHT]:
        row = screen_diff.blank(WIDTH)
        screen_diff.lay(row, 0, screen_diff.cells([Segment(text, style) for text, style in line], pens))
        rows.append(row)
    return rows


def draw(
    terminal: Terminal, old: list[screen_diff.Row], new: list[screen_diff.Row], pens: screen_diff.Pens, erase: bool
) -> str:
    writer = screen_diff.Writer(pens, WIDTH, HEIGHT, erase)
    if (move := screen_diff.shift(old, new)) is not None:
        writer.scroll(*move)
        old = screen_diff.scrolled(old, *move)
    for y in range(HEIGHT):
        writer.row(y, old[y], new[y])
    sent = writer.result()
    terminal.play(sent)
    assert sanitiser.outgoing(sent) == sent
    return sent


def afresh(new: list[screen_diff.Row], pens: screen_diff.Pens) -> Terminal:
    """What a terminal shows that was sent every cell."""
    terminal = Terminal(WIDTH, HEIGHT)
    writer = screen_diff.Writer(pens, WIDTH, HEIGHT, False)
    writer.clear()
    for y in range(HEIGHT):
        writer.row(y, screen_diff.unknown(WIDTH), new[y])
    terminal.play(writer.result())
    return terminal


def same(one: Terminal, other: Terminal) -> bool:
    """Whether both look alike: blanks differ only by what a blank shows."""
    return seen(one) == seen(other)


def seen(terminal: Terminal) -> list[list[tuple[str, tuple[str, ...]]]]:
    def of(text: str, pen: tuple[str, ...]) -> tuple[str, ...]:
        inked = text.strip() or set(pen) & {"4", "7"}
        return pen if inked else tuple(code for code in pen if code[0] == "4" and len(code) > 1)

    return [[(text, of(text, pen)) for text, pen in row] for row in terminal.cells]


@RELAXED
@given(st.lists(st.lists(LINES, max_size=HEIGHT), min_size=1, max_size=4), st.booleans())
def test_every_picture_arrives(pictures: list[list[list[tuple[str, Style | None]]]], erase: bool) -> None:
    pens = screen_diff.Pens(ColorSystem.TRUECOLOR)
    terminal, shown = Terminal(WIDTH, HEIGHT), picture([], pens)
    for lines in pictures:
        wanted = picture(lines, pens)
        draw(terminal, shown, wanted, pens, erase)
        assert same(terminal, afresh(wanted, pens))
        assert terminal.pen == {}
        shown = wanted


@RELAXED
@given(st.permutations(range(30)), st.integers(-8, 8), st.integers(0, 3))
def test_scrolled_rows_are_moved_by_the_terminal(names: list[int], step: int, head: int) -> None:
    pens = screen_diff.Pens(ColorSystem.TRUECOLOR)

    def at(top: int) -> list[screen_diff.Row]:
        lines = [f"head {i}" for i in range(head)]
        lines += [f"row {n:02} {n * 7919 % 1000:>14}" for n in names[top : top + HEIGHT]]
        return picture([[(line, STYLES[4])] for line in lines], pens)

    terminal = Terminal(WIDTH, HEIGHT)
    draw(terminal, picture([], pens), at(10), pens, True)
    sent = draw(terminal, at(10), at(10 + step), pens, True)
    assert same(terminal, afresh(at(10 + step), pens))
    if 0 < abs(step) <= HEIGHT - head - 4:
        assert len(sent) < 60 + 42 * abs(step)


def test_nothing_changed_sends_nothing() -> None:
    pens = screen_diff.Pens(ColorSystem.TRUECOLOR)
    rows = picture([[("some text", STYLES[1])]], pens)
    assert draw(Terminal(WIDTH, HEIGHT), rows, rows, pens, True) == ""


def test_fixed_colours_are_sent_by_number_and_others_in_full() -> None:
    pens = screen_diff.Pens(ColorSystem.TRUECOLOR)
    fixed, true = pens.number(Style.parse("#5fafff")), pens.number(Style.parse("#5fafee"))
    assert pens.transition(0, fixed) == "\x1b[38;5;75m" and pens.transition(0, true) == "\x1b[38;2;95;175;238m"
    assert pens.transition(fixed, 0) == "\x1b[m"
    bold = pens.number(Style.parse("bold #5fafff"))
    assert pens.transition(fixed, bold) == "\x1b[1m" and pens.transition(bold, fixed) == "\x1b[22m"


def test_what_a_cell_may_not_hold() -> None:
    pens = screen_diff.Pens(ColorSystem.TRUECOLOR)
    for bad in ("\x1b[31mred", "\x9b2J", "a\x08b", "\u202eevil", "x\ty", "\x07", "\x1b]0;t\x07"):
        texts, _ = screen_diff.cells([Segment(bad)], pens)
        assert all(text.isprintable() for text in texts), bad


def test_what_is_taken_for_one_cell_a_letter_is_that() -> None:
    taken = [chr(code) for code in range(0x30000) if sanitiser.single(chr(code))]
    assert {"a", "é", "µ", "…", "█", "▁", "─", "→"} <= set(taken)
    for letter in taken:
        assert get_character_cell_size(letter) == 1 and sanitiser.printable(letter) == letter, hex(ord(letter))
    assert not sanitiser.single("漢") and sanitiser.cells("漢µ") == 3
    assert screen_diff._wide("12.5 µs") == list("12.5 µs")


@RELAXED
@given(st.text(st.sampled_from("a\x1b[]?2026h;52cHmKPq\\\x07\x9b\u202e\n"), max_size=30))
def test_what_nothing_is_replaced_in_leaves_as_it_came(data: str) -> None:
    assert sanitiser.outgoing(data) == sanitiser._TOKEN.sub(lambda match: match[1] or sanitiser.REPLACEMENT, data)


def test_only_our_own_sequences_leave() -> None:
    for own in (
        "\x1b[?1049h", "\x1b[12;3H", "\x1b[0;1;38;5;75m", "\x1b[2J", "\x1b[K", "\x1b[3;20r", "\x1b[>25u",
        "\x1b[<u", "\x1b[?2026$p", "\x1b]52;c;aGVsbG8=\x07",
        "\x1b]22;pointer\x07", "text\r\n", "\x07", "\x1bP\x1b]52;c;aGVs\x1b\\\x1bPbG8=\x07\x1b\\",
    ):
        assert sanitiser.outgoing(own) == own, own
    for bad in (
        "\x1b]0;PWNED\x07", "\x1b]2;t\x1b\\", "\x1b]8;;http://evil\x1b\\", "\x9b2J", "\x1b]52;c;?\x07",
        "\x1bPq#0\x1b\\", "\x1b_G\x1b\\", "\x1bc", "\x1b[5;3t", "\x1b[c", "\x1b[6i", "a\x08b", "\x0e", "\u202e", 
        "\x1b]52;p;aGk=\x07", "\x1b",
    ):
        assert "\x1b" not in sanitiser.outgoing(bad) and sanitiser.outgoing(bad) != bad, bad
        assert all(char.isprintable() or char == "\x07" for char in sanitiser.outgoing(bad)), bad
