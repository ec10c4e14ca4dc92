"""Mangled C++ names (Itanium ABI: HIP, clang, Triton's libraries) → C++ text, within bounds.

LLVM's own demangler does the work; it is fast and knows every construct, but it is C++ in this process: a name of a few
hundred characters whose substitutions double at each step would unfold to terabytes, and one nested ten thousand deep
overruns the stack. So a name is measured first and what might unfold too far is refused. What must stay true: the
measure is an upper bound, so that no name costs more than ``_UNFOLDED`` characters.
"""

from __future__ import annotations

import re

_LONGEST = 4096
"""Characters of a mangled name that is looked at: too few to nest as deep as the stack."""

_UNFOLDED = 1 << 22
"""Characters a name may unfold to at most, by the bound; real ones come to some ten thousand."""

_PACKS = 2
"""Pack expansions a name may hold: each repeats what it holds once for each element."""

_REFERENCE = re.compile(r"([ST])([0-9A-Z]*)_")
_NAMES = 64
"""Names read from one that cannot be demangled."""

_SUFFIX = re.compile(r"(?:\.kd|_?\d+|\.[\w.]+)$")
_SOURCE_NAME = re.compile(r"(\d{1,3})(?=[A-Za-z_])")


def is_mangled(raw: str) -> bool:
    """Whether the text begins as a mangled function name does."""
    return raw.startswith("_Z") and len(raw) > 3 and (raw[2].isdigit() or raw[2] in "NLSG")


def demangled(raw: str) -> str | None:
    """The C++ text of a mangled name; None where it is no such name, or unfolds beyond reason."""
    if not is_mangled(raw) or len(raw) > _LONGEST or raw.count("Dp") > _PACKS or unfolded(raw) > _UNFOLDED:
        return None
    import pycxxfilt

    for text in (raw, _SUFFIX.sub("", raw)):
        try:
            made = pycxxfilt.demangle(text)
        except (ValueError, UnicodeError):
            continue
        if made:
            return str(made)
    return None


def unfolded(raw: str) -> int:
    """An upper bound of the length the name demangles to; counting stops beyond ``_UNFOLDED``.

    A back reference ``S<id>_`` stands for a component that was complete before its first use, so it is at most as long
    as everything that the references to earlier ids before that place come to; ``T<id>_`` is at most all before it.
    """
    sizes: dict[str, int] = {}
    seen: list[tuple[int, int]] = []
    total = len(raw)
    for found in _REFERENCE.finditer(raw):
        if total > _UNFOLDED:
            break
        kind, digits = found.groups()
        if kind == "T":
            total += total
            continue
        number = int(digits[:8], 36) + 1 if digits else 0
        if digits not in sizes:
            sizes[digits] = len(raw) + sum(size for other, size in seen if other < number)
        seen.append((number, sizes[digits]))
        total += sizes[digits]
    return total


def source_names(raw: str) -> list[str]:
    """The names in a mangled name that cannot be demangled, of each qualified one the innermost, in order."""
    made: list[str] = []
    at, joined = 2, False
    while found := _SOURCE_NAME.search(raw, at):
        stop = found.end() + int(found[1])
        name = raw[found.end() : stop]
        if not name.isidentifier():
            at, joined = found.end(), False
            continue
        if joined and found.start() == at:
            made.pop()
        if not name.startswith("_GLOBAL__N"):
            made.append(name)
        at, joined = stop, bool(made)
        if len(made) > _NAMES:
            break
    return made
