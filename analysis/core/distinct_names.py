"""Names that look alike once they are cut: shown by the part that tells them apart.

``text.fit_name`` cuts each name by itself, and generated kernels often differ in a tile size in the middle of seventy
characters. Among names that are seen together those that came out the same are cut again: begin, the part that differs,
and end. What must stay true: a name that looks like no other is left as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from .text import clean, fit_name

_LEAST = 12
"""Cells under which two ends and a middle are no name any more."""


def told_apart(names: Iterable[str], width: int) -> dict[str, str]:
    """Recorded names that look like another one at that width → display text of at most ``width`` cells that does not.

    Names whose difference does not fit are left out, and so is what is not ASCII after cleaning.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys(names):
        alike[fit_name(name, width)].append(name)
    made: dict[str, str] = {}
    for group in alike.values():
        if len(group) > 1 and width >= _LEAST:
            made |= _apart({name: clean(name).removeprefix("void ") for name in group}, width)
    return made


def _apart(texts: dict[str, str], width: int) -> dict[str, str]:
    """Cut again all of a group by where they differ; those that still look alike by where these do."""
    if not all(text.isascii() for text in texts.values()):
        return {}
    begin = _agreed(texts.values())
    end = _agreed([text[begin:][::-1] for text in texts.values()])
    shown: dict[str, list[str]] = defaultdict(list)
    for name, text in texts.items():
        shown[_parts(text, begin, len(text) - end, width)].append(name)
    made: dict[str, str] = {}
    for text, group in shown.items():
        if len(group) == 1:
            made[group[0]] = text
        elif len(group) < len(texts):
            made |= _apart({name: texts[name] for name in group}, width)
    return made


def _agreed(texts: Collection[str]) -> int:
    """How many characters all of them begin with."""
    low, high = min(texts), max(texts)
    return next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))


def _parts(text: str, start: int, stop: int, width: int) -> str:
    """The text's begin, what lies from ``start`` to ``stop`` with what is around it, and its end; ``width`` cells."""
    room = width - 2
    head = tail = room // 4
    middle = room - head - tail
    before = max(0, middle - (stop - start)) // 2
    first = max(0, min(start - before, len(text) - middle))
    kept = [(0, head), (first, first + middle), (len(text) - tail, len(text))]
    out, at = "", 0
    for low, high in kept:
        if high > at:
            out += ("…" if low > at else "") + text[max(low, at) : high]
            at = high
    return out
