"""Diff of two screen contents: the fewest bytes that turn one into the other.

A screen is rows of cells; a cell is its text ('' for the second half of a wide character) and the number of a pen: the
attributes, foreground and background it is written with. Pure: independent of app and terminal, and tested without
them. Invariant: sent to a terminal that shows ``old``, the result makes it show ``new`` and leaves the default pen.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from rich._palettes import EIGHT_BIT_PALETTE
from rich.cells import cell_len, get_character_cell_size
from rich.color import Color, ColorSystem, ColorType
from rich.palette import Palette
from rich.segment import Segment
from rich.style import Style

from . import sanitiser
from .sanitiser import printable

Row = tuple[list[str], list[int]]
"""Texts and pens of a row's cells, one each per column of the screen."""

GAP = 4
"""Unchanged cells up to this many are sent again rather than skipped: a cursor move costs four bytes."""

_OFF = {1: "22", 2: "22", 3: "23", 4: "24", 5: "25", 6: "25", 7: "27", 8: "28", 9: "29", 21: "24", 53: "55"}
_ATTRIBUTES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 21, 51, 52, 53)
_INKED = frozenset((4, 7, 9, 21, 53))
"""Attributes that are visible on a blank."""


class Pens:
    """The pens used so far, by number; 0 is the default pen."""

    def __init__(self, system: ColorSystem) -> None:
        self._system = system
        self._numbers: dict[tuple[frozenset[int], str, str], int] = {(frozenset(), "", ""): 0}
        self._pens: list[tuple[frozenset[int], str, str]] = [(frozenset(), "", "")]
        self._styles: dict[Style | None, int] = {None: 0}
        self._turns: dict[tuple[int, int], str] = {}
        self.grounds = [0]
        """For each pen the one its blanks need: only the background, unless an attribute is visible on blanks."""

    def number(self, style: Style | None) -> int:
        """The number of a style's pen."""
        pen_number = self._styles.get(style)
        if pen_number is None:
            assert style is not None
            on = style._attributes & style._set_attributes
            attributes = frozenset(code for bit, code in enumerate(_ATTRIBUTES) if on & (1 << bit))
            pen = (attributes, self._codes(style.color, True), self._codes(style.bgcolor, False))
            pen_number = self._numbers.get(pen)
            if pen_number is None:
                pen_number = self._numbers[pen] = len(self._pens)
                self._pens.append(pen)
                self.grounds.append(pen_number)
                if not attributes & _INKED and (attributes or pen[1]):
                    self.grounds[pen_number] = self.number(Style(bgcolor=style.bgcolor))
            if len(self._styles) > 4096:  # styles with metadata are new objects all the time
                self._styles = {None: 0}
            self._styles[style] = pen_number
        return pen_number

    def _codes(self, color: Color | None, foreground: bool) -> str:
        if color is None or color.is_default:
            return ""
        color = color.downgrade(self._system)
        if color.type is ColorType.TRUECOLOR and color.triplet is not None:
            fixed = _fixed(EIGHT_BIT_PALETTE).get(tuple(color.triplet))
            if fixed is not None:  # the 256-colour palette has this colour in fewer bytes
                return f"{38 if foreground else 48};5;{fixed}"
        return ";".join(color.get_ansi_codes(foreground))

    def erases(self, number: int, with_background: bool) -> bool:
        """Whether erasing with this pen leaves the same cells as writing blanks with it."""
        attributes, _, background = self._pens[number]
        return not attributes & _INKED and (with_background or not background)

    def transition(self, old: int, new: int) -> str:
        """The escape sequence from one pen to another: only the differences, or a full reset, whichever is shorter."""
        if old == new:
            return ""
        result = self._turns.get((old, new))
        if result is None:
            result = self._turns[old, new] = self._turned(old, new)
        return result

    def _turned(self, old: int, new: int) -> str:
        was, now = self._pens[old], self._pens[new]
        anew = ["", *map(str, sorted(now[0])), now[1], now[2]]
        whole = "\x1b[" + ";".join(["" if new == 0 else "0", *filter(None, anew)]).strip(";") + "m"
        off = {_OFF[code] for code in was[0] - now[0] if code in _OFF}
        lost = {code for code in was[0] & now[0] if _OFF.get(code) in off}
        steps = [*sorted(off), *map(str, sorted((now[0] - was[0]) | lost))]
        steps += [now[1] or "39"] * (was[1] != now[1]) + [now[2] or "49"] * (was[2] != now[2])
        part = f"\x1b[{';'.join(steps)}m"
        return part if len(part) < len(whole) and not (was[0] - now[0]) & {51, 52} else whole


@lru_cache(maxsize=1)
def _fixed(palette: Palette) -> dict[tuple[int, ...], int]:
    # the first 16 are user-defined
    return {tuple(palette._colors[number]): number for number in range(255, 15, -1)}


def blank(width: int) -> Row:
    """An empty row."""
    return [" "] * width, [0] * width


def unknown(width: int) -> Row:
    """A row with unknown content: none of its cells equals any other cell."""
    return ["?unknown"] * width, [-1] * width


def cells(segments: list[Segment], pens: Pens) -> Row:
    """The cells of a strip. Wide characters take two, combining ones join the one before, control characters go."""
    texts: list[str] = []
    inks: list[int] = []
    for text, style, control in segments:
        if control:
            continue
        pen = pens.number(style)
        if text.isascii() and text.isprintable():
            texts.extend(text)
            result: str | list[str] = text
        else:
            result = _wide(text)
            texts.extend(result)
        ground = pens.grounds[pen]
        if ground == pen or " " not in result:
            inks.extend([pen] * len(result))
        else:
            inks.extend([ground if char == " " else pen for char in result])
    return texts, inks


@lru_cache(maxsize=2048)
def _wide(text: str) -> list[str]:
    """One entry per cell, exactly as many as Rich measures."""
    if sanitiser.single(text):
        return list(text)
    room = cell_len(text)
    out: list[str] = []
    for char in printable(text):
        size = get_character_cell_size(char)
        if size == 0:
            if out and char != "\ufe0f":  # variation selector 16 would widen the character before on some terminals
                at = len(out) - (2 if out[-1] == "" and len(out) > 1 else 1)
                out[at] += char
        elif len(out) + size > room:
            break
        else:
            out.extend((char, "") if size == 2 else (char,))
    return out + [" "] * (room - len(out))


def lay(row: Row, x: int, piece: Row) -> None:
    """Write cells over a row; the remaining half of an overwritten wide character becomes a blank."""
    texts, pens = row
    stop = min(len(texts), x + len(piece[0]))
    if x >= stop:
        return
    texts[x:stop], pens[x:stop] = piece[0][: stop - x], piece[1][: stop - x]
    if texts[x] == "":
        texts[x] = " "
    if x and x < len(texts) and cell_len(texts[x - 1]) == 2:
        texts[x - 1] = " "
    if stop < len(texts) and texts[stop] == "":
        texts[stop] = " "
    if cell_len(texts[stop - 1]) == 2 and (stop == len(texts) or texts[stop] != ""):
        texts[stop - 1] = " "


class Writer:
    """Collects the escape sequences of one frame."""

    def __init__(self, pens: Pens, width: int, height: int, erase_with_background: bool) -> None:
        self._pens = pens
        self._size = width, height
        self._background = erase_with_background
        self._out: list[str] = []
        self._pen = 0
        self._at: tuple[int, int] | None = None  # row, column

    def result(self) -> str:
        """Everything collected so far, ending with the default pen."""
        self._use(0)
        return "".join(self._out)

    def clear(self) -> None:
        """Erase the whole screen."""
        self._out.append("\x1b[m\x1b[2J")
        self._pen, self._at = 0, None

    def scroll(self, top: int, stop: int, lines: int) -> None:
        """Move the rows top..stop up by ``lines`` (negative: down); rows that appear are blank.

        Inserts and deletes lines between margins, which the Linux console and screen support too.
        """
        self._use(0)
        whole = stop == self._size[1]
        margins = "" if whole else f"\x1b[{top + 1};{stop}r"
        here = f"\x1b[{top + 1}H" if top else "\x1b[H"
        count = abs(lines) if abs(lines) > 1 else ""
        self._out.append(f"{margins}{here}\x1b[{count}{'M' if lines > 0 else 'L'}{'' if whole else chr(27) + '[r'}")
        self._at = None

    def row(self, y: int, old: Row, new: Row) -> None:
        """Update one row from old to new."""
        if old == new:
            return
        (was, was_pens), (now, pens) = old, new
        width = len(now)
        cells = enumerate(zip(was, now, was_pens, pens, strict=True))
        changed = [x for x, (text, wanted, ink, pen) in cells if text != wanted or ink != pen]
        at, count = 0, len(changed)
        while at < count:
            start, stop = changed[at], changed[at] + 1
            at += 1
            while at < count and (changed[at] == stop or _joined(stop, changed[at], now, pens)):
                stop = changed[at] + 1
                at += 1
            while start and now[start] == "":
                start -= 1
            while stop < width and now[stop] == "":
                stop += 1
            self._run(y, start, now[start:stop], pens[start:stop])
            while at < count and changed[at] < stop:
                at += 1

    def _run(self, y: int, x: int, texts: list[str], pens: list[int]) -> None:
        self._move(y, x)
        width, stop = self._size[0], x + len(texts)
        tail = 0
        if stop == width and self._pens.erases(pens[-1], self._background):
            while tail < len(texts) and texts[-1 - tail] == " " and pens[-1 - tail] == pens[-1]:
                tail += 1
        if tail <= 3:
            tail = 0
        count, at, grounds = len(texts) - tail, 0, self._pens.grounds
        while at < count:
            if texts[at] != " " or pens[at] != grounds[self._pen]:  # the current pen will do for a blank on its ground
                self._use(pens[at])
            pen, ground = self._pen, grounds[self._pen]
            end = at + 1
            while end < count and (pens[end] == pen or (texts[end] == " " and pens[end] == ground)):
                end += 1
            self._text(y, x, texts[at:end])
            x += end - at
            at = end
        if tail:
            self._move(y, x)
            self._use(pens[-1])
            self._out.append("\x1b[K")

    def _text(self, y: int, x: int, texts: list[str]) -> None:
        joined = "".join(texts)
        if len(joined) == len(texts):
            self._out.append(joined)
            self._at = (y, x + len(texts)) if x + len(texts) < self._size[0] else None
            return
        for text in texts:  # terminals disagree on the width of such characters, so position each one explicitly
            if text:
                self._move(y, x)
                self._out.append(text)
                self._at = (y, x + 1) if len(text) == 1 and cell_len(text) == 1 and x + 1 < self._size[0] else None
            x += 1

    def _move(self, y: int, x: int) -> None:
        if self._at == (y, x):
            return
        ways = [f"\x1b[{y + 1};{x + 1}H" if x else f"\x1b[{y + 1}H" if y else "\x1b[H"]
        if self._at is not None and self._at[0] == y and x > self._at[1]:
            ways.append(f"\x1b[{x - self._at[1]}C" if x - self._at[1] > 1 else "\x1b[C")
        elif self._at is not None and self._at[0] + 1 == y and x == 0:
            ways.append("\r\n")
        self._out.append(min(ways, key=len))
        self._at = y, x

    def _use(self, pen: int) -> None:
        self._out.append(self._pens.transition(self._pen, pen))
        self._pen = pen


def _joined(stop: int, more: int, now: list[str], pens: list[int]) -> bool:
    """Whether to send the unchanged cells between two changes again: they are few and need no other pen."""
    pen = pens[stop - 1]
    return more - stop <= GAP and all(pens[x] == pen or now[x] == " " for x in range(stop, more))


def shift(old: list[Row], new: list[Row]) -> tuple[int, int, int] | None:
    """Rows that moved, as (top, stop, lines up; negative: down) for ``Writer.scroll``; None if there is no shift."""
    before = ["".join(texts) for texts, _ in old]
    after = ["".join(texts) for texts, _ in new]
    where: dict[str, list[int]] = {}
    for y, text in enumerate(before):
        where.setdefault(text, []).append(y)
    votes: Counter[int] = Counter()
    for y, text in enumerate(after):
        places = where.get(text, ())
        if len(places) <= 2 and before[y] != text:
            votes.update(at - y for at in places)
    if not votes:
        return None
    lines, count = votes.most_common(1)[0]
    if count < 3:
        return None
    reach = range(max(0, -lines), min(len(new), len(new) - lines))
    moved = [y for y in reach if after[y] == before[y + lines] != before[y]]
    ends = moved + [y + lines for y in moved]
    top, stop = min(ends), max(ends) + 1
    spoilt = sum(before[y] == after[y] and bool(after[y].strip()) for y in range(top, stop))
    return (top, stop, lines) if count > spoilt + 2 else None


def scrolled(rows: list[Row], top: int, stop: int, lines: int) -> list[Row]:
    """The rows as they are after ``Writer.scroll`` with these arguments."""
    width = len(rows[0][0])
    inside = rows[top:stop]
    fresh = [blank(width) for _ in range(min(abs(lines), len(inside)))]
    inside = inside[lines:] + fresh if lines > 0 else fresh + inside[:lines]
    return rows[:top] + inside + rows[stop:]
