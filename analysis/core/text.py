"""Recorded strings → display text: the one function between a trace and an eye.

A trace comes from someone else: names may hold escape sequences, control characters, bidirectional overrides, invalid
Unicode or a megabyte of text. ``display`` makes any of that safe and visible, in one line.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from rich.cells import cell_len

from .functor_names import shorter

_SYMBOLS = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "␡"}
_LONGEST = 4096
"""Characters looked at before a name is cut: nobody reads more, and a megabyte must not cost a frame."""

_LEAST_BASE = 14
"""Cells a kernel's own name keeps beside its functor, or half of them where nothing else fits."""


def clean(raw: str | None) -> str:
    """The string in one line with everything a terminal or a text renderer might act on made visible.

    C0 controls become their symbols, other controls, format characters (bidi marks, zero-width), surrogates and
    unassigned code points become U+FFFD or ``⟨U+202E⟩``-like marks. Length is bounded. What has no name says so.
    """
    if raw is None:
        return "(no name)"
    if len(raw) > _LONGEST:
        raw = raw[: _LONGEST // 2] + "…" + raw[-_LONGEST // 2 :]
    return visible(raw)


def visible(raw: str) -> str:
    """``clean`` without the bound on its length: for text made of many strings, line by line."""
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
    """Clean text cut in the middle with ``…`` so that it takes at most ``width`` cells."""
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
    end = _fit(text[::-1], right_room)[::-1]
    while end and cell_len(end[0]) == 0:
        end = end[1:]  # a mark without the letter it belongs to would go to the ellipsis
    return _fit(text, left_room) + "…" + end


def _fit(text: str, width: int) -> str:
    used, taken = 0, 0
    for char in text:
        cells = cell_len(char)
        if used + cells > width:
            break
        used, taken = used + cells, taken + 1
    return text[:taken]


_SCOPES = re.compile(r"(?:(?:\(anonymous namespace\)|<unnamed>|at|native|c10|cuda|cutlass|std)::)+")


def fit_name(raw: str, width: int) -> str:
    """A function's name as display text of at most ``width`` cells that still tells it from its neighbours.

    What says least goes first: the return type, the parameter list, well-known namespaces, then the middle of the
    template arguments, or of a generic kernel all of them but the functor; only a name that is too long without them is
    cut in its own middle.
    """
    text = clean(raw)
    return text if len(text) <= width and cell_len(text) <= width else _fitted(text, width)


@lru_cache(maxsize=8192)
def _fitted(text: str, width: int) -> str:
    """Clean text, too long, as ``fit_name`` shortens it; lists ask for the same names on every frame."""
    text = text.removeprefix("void ")
    text = _without_parameters(text)
    if cell_len(text) > width:
        text = _SCOPES.sub("", text) or text
    if cell_len(text) <= width:
        return text
    base, bracket, arguments = text.partition("<")
    if bracket:
        told = _told(base, arguments, width)
        if told:
            return told
    room = width - cell_len(base) - 1
    if bracket and base and room >= 6:
        return base + bracket + cut(arguments, room)
    short = re.sub(r"\w+::", "", base if len(base) > 3 else text) or text
    return cut(short, width)


def _told(base: str, arguments: str, width: int) -> str | None:
    """A generic kernel by what it computes, in the most words that fit; its own name is cut before its functor."""
    cut_base = last = None
    for shown in shorter(base, arguments):
        if cell_len(shown) <= width:
            return shown if cut_base is None else cut_base
        own, _, functor = shown.partition("<")
        room = width - cell_len(functor) - 1
        if not functor.startswith("…") or room < _LEAST_BASE // 2:
            continue
        last = f"{cut(own, room)}<{functor}"
        if cut_base is None and room >= _LEAST_BASE:
            cut_base = last
    return cut_base or last


def _without_parameters(text: str) -> str:
    """The name up to its last balanced ``(...)``, where that ends it and is not all of it."""
    if not text.endswith(")"):
        return text
    depth = 0
    for at in range(len(text) - 1, 0, -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if depth == 0:
            return text[:at].rstrip()
    return text


def display(raw: str, width: int | None = None) -> str:
    """Any recorded string as display text, at most ``width`` cells wide where given."""
    text = clean(raw)
    return text if width is None else cut(text, width)
