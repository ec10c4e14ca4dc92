"""Changes that a replay is asked for: KIND:REGEX=FACTOR, or ``graph``."""

from __future__ import annotations

import math
import re

from msgspec import Struct

KINDS = ("kernel", "op", "collective", "copy", "host", "idle", "sync")
"""What can be changed: device activities, operators with their host time, host code, causes of idle time, calls."""
GRAPH = "graph"
"""The launches of a cycle become one, as far as the host does not wait in between."""
FAMILY = "family:"
"""Before a family of kernels in place of a pattern: ``kernel:family:gemm=0.5``."""
_SPECIAL = re.compile(r"[.^$*+?{}\[\]\\|()]")
_FORM = re.compile(r"(\w+)(?::(.*))?=(\S+)", re.DOTALL)


def exactly(name: str) -> str:
    """The pattern of that name alone, with no more escapes than it needs."""
    return f"^{_SPECIAL.sub(lambda found: chr(92) + found[0], name)}$"


def plainly(pattern: str) -> str:
    """What an escaped name looks like without its escapes."""
    return re.sub(r"\\(.)", r"\1", pattern)


class NotAChange(ValueError):
    """The text is no change; the message says what one looks like."""


class Change(Struct, frozen=True):
    """A factor on the time of what has that kind and a name in which the pattern is found; None is ``peak``."""

    kind: str
    pattern: str = ""
    factor: float | None = 0.0

    @property
    def text(self) -> str:
        """As it is typed."""
        if self.kind == GRAPH:
            return GRAPH
        factor = "peak" if self.factor is None else f"{self.factor:g}"
        return f"{self.kind}{':' if self.pattern else ''}{self.pattern}={factor}"


_NEXT = re.compile(rf"\s+(?=(?:{'|'.join(KINDS)})[:=]|{GRAPH}(?:\s|$))")


def split(text: str) -> tuple[str, ...]:
    """The changes of a line, apart by blanks; a pattern may hold blanks too."""
    return tuple(one for one in _NEXT.split(text.strip()) if one)


def parse(text: str) -> Change:
    """The change that is typed so: ``kernel:gemm=0.5``, ``host=0``, ``graph``. Raises NotAChange."""
    if text.strip() == GRAPH:
        return Change(GRAPH)
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise NotAChange(f"{text!r} is not a change; type KIND:REGEX=FACTOR, as kernel:gemm=0.5, or {GRAPH}")
    kind, pattern, amount = match[1], match[2] or "", match[3]
    if kind not in KINDS:
        raise NotAChange(f"{kind!r} is not a kind of change; kinds: {', '.join(KINDS)}, {GRAPH}")
    try:
        re.compile(pattern)
    except re.error as error:
        raise NotAChange(f"{pattern!r} is not a regular expression: {error}") from None
    if amount == "peak":
        if kind not in ("kernel", "op", "copy"):
            raise NotAChange(f"peak is of kernels, operators and copies, not of {kind}")
        return Change(kind, pattern, None)
    try:
        factor = float(amount)
    except ValueError:
        factor = math.nan
    if not 0 <= factor <= 1000:
        raise NotAChange(f"{amount!r} is not a factor; give a number from 0 to 1000, or peak")
    return Change(kind, pattern, factor)
