"""Recorded strings → display text: every recorded string passes through here before anyone reads it.

A trace is untrusted: names may hold escape sequences, control characters, bidirectional overrides, invalid Unicode or a
megabyte of text. ``display`` makes all of that safe and visible, on one line.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import groupby

from rich.cells import cell_len

_SYMBOLS = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}
_LONGEST = 4096  # Characters kept of a longer name: nobody reads more, and a megabyte must not cost a frame.


def clean(raw: str | None) -> str:
    """The string on one line, with everything visible that a terminal or text renderer might act on. C0 controls become
    their symbols; other controls, format characters (bidi marks, zero-width), surrogates and unassigned code points
    become U+FFFD or ``⟨U+202E⟩``-like marks. Length is bounded. None becomes '(no name)'."""
    if raw is None:
        return "(no name)"
    if len(raw) > _LONGEST:
        raw = raw[: _LONGEST // 2] + "…" + raw[-_LONGEST // 2 :]
    return visible(raw)


def visible(raw: str) -> str:
    """``clean`` without the length limit: for text made of many strings, line by line."""
    if raw.isascii() and raw.isprintable():
        return raw
    out: list[str] = []
    for char in raw:
        code = ord(char)
        if code in _SYMBOLS:
            out.append(_SYMBOLS[code])
            continue
        category = unicodedata.category(char)
        if category in ("Cc", "Cf", "Zl", "Zp"):
            out.append(f"⟨U+{code:04X}⟩")
        elif category in ("Cs", "Cn", "Co"):
            out.append("\ufffd")
        elif category == "Zs":
            out.append(" ")
        else:
            out.append(char)
    return "".join(out)


def cut(text: str, width: int) -> str:
    """Clean text, cut in the middle with ``…`` to at most ``width`` cells."""
    if width <= 0:
        return ""
    if text.isascii():
        if len(text) <= width:
            return text
        if width == 1:
            return "…"
        left = width // 2
        right = width - 1 - left
        return text[:left] + "…" + (text[-right:] if right else "")
    if cell_len(text) <= width:
        return text
    left_room, right_room = width // 2, width - 1 - width // 2
    return _fit(text, left_room) + "…" + _end(text, right_room)


def cut_start(text: str, width: int) -> str:
    """Clean text, cut at the start with ``…`` to at most ``width`` cells."""
    if width <= 0:
        return ""
    return text if cell_len(text) <= width else "…" + _end(text, width - 1)


_FOLDERS = 14  # Most cells kept for the folders of a path whose file name is too long.


def cut_path(text: str, width: int) -> str:
    """A clean path, cut to at most ``width`` cells: its folders at their start, its file name in the middle."""
    folders, slash, name = text.rpartition("/")
    name = cut(name, width - min(cell_len(folders + slash), _FOLDERS, width // 2))
    return cut_start(folders + slash, width - cell_len(name)) + name


def cut_end(text: str, width: int) -> str:
    """Clean text, cut at the end with ``…`` to at most ``width`` cells."""
    if width <= 0:
        return ""
    return text if cell_len(text) <= width else _fit(text, width - 1) + "…"


def _end(text: str, width: int) -> str:
    end = _fit(text[::-1], width)[::-1]
    while end and cell_len(end[0]) == 0:
        end = end[1:]  # a combining mark without its letter would attach to the ellipsis
    return end


def _fit(text: str, width: int) -> str:
    used, taken = 0, 0
    for char in text:
        cells = cell_len(char)
        if used + cells > width:
            break
        used, taken = used + cells, taken + 1
    return text[:taken]


def display(raw: str, width: int | None = None) -> str:
    """Any recorded string as display text, at most ``width`` cells wide if given."""
    text = clean(raw)
    return text if width is None else cut(text, width)


_SHAPE = re.compile(r"\[\s*(\d[\d\s,]*)\]")


def shapes(recorded: str) -> str:
    """Recorded shapes (``[[16,559],[559,64],[]]``) in readable form, ``16×559 559×64``, without scalars."""
    return " ".join(_sizes(recorded)) or ("scalars" if "[]" in recorded else display(recorded))


def few_shapes(recorded: str) -> str:
    """Shapes for a sentence: consecutive equal ones are counted, as in ``3 tensors of 16×559``."""
    rows = [(one, len(list(same))) for one, same in groupby(_sizes(recorded))]
    return ", ".join(one if count == 1 else f"{count} tensors of {one}" for one, count in rows) or shapes(recorded)


def _sizes(recorded: str) -> list[str]:
    return ["×".join(part.strip() for part in one.split(",")) for one in _SHAPE.findall(recorded)]


def nearest(word: str, names: Iterable[str], all_of: str = "There are") -> str:
    """A sentence suggesting the names closest to a misspelt word, or listing all names if none is close."""
    from difflib import SequenceMatcher, get_close_matches

    names = list(names)
    best = "".join(get_close_matches(word, names, 1, 0.5))
    near = get_close_matches(word, names, 3, SequenceMatcher(None, best, word).ratio() - 0.1) if best else []
    return f"Nearest: {', '.join(near)}." if near else f"{all_of}: {', '.join(names)}."
