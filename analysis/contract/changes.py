"""Changes that a what-if replay can apply: KIND:REGEX=FACTOR, or ``graph``."""

from __future__ import annotations

import math
import re

from msgspec import Struct

KINDS = ("kernel", "op", "collective", "copy", "host", "idle", "sync")
"""The kinds of change: device activities, operators with their host time, host code, idle causes, waits."""
GRAPH = "graph"
"""A cycle's launches become one graph launch, split where the host waits in between."""
FAMILY = "family:"
"""Prefix of a kernel family in place of a pattern: ``kernel:family:gemm=0.5``."""
_SPECIAL = re.compile(r"[.^$*+?{}\[\]\\|()]")
_FORM = re.compile(r"(\w+)(?::(.*))?=(\S+)", re.DOTALL)


def exactly(name: str) -> str:
    """A pattern that matches only that name, with no more escapes than necessary."""
    return f"^{_SPECIAL.sub(lambda found: chr(92) + found[0], name)}$"


def plainly(pattern: str) -> str:
    """A pattern made by ``exactly`` without its escapes."""
    return re.sub(r"\\(.)", r"\1", pattern)


class NotAChange(ValueError):
    """The text is not a valid change; the message shows the syntax."""


class Change(Struct, frozen=True):
    """A factor on the time of everything of that kind whose name matches the pattern; factor None means ``peak``."""

    kind: str
    pattern: str = ""
    factor: float | None = 0.0

    @property
    def text(self) -> str:
        """The change as it is typed."""
        if self.kind == GRAPH:
            return GRAPH
        factor = "peak" if self.factor is None else f"{self.factor:g}"
        return f"{self.kind}{':' if self.pattern else ''}{self.pattern}={factor}"


_NEXT = re.compile(rf"\s+(?=(?:{'|'.join(KINDS)})[:=]|{GRAPH}(?:\s|$))")


def split(text: str) -> tuple[str, ...]:
    """The changes in a line, separated by spaces; a pattern may contain spaces too."""
    return tuple(one for one in _NEXT.split(text.strip()) if one)


def parse(text: str) -> Change:
    """The change for a typed text: ``kernel:gemm=0.5``, ``host=0``, ``graph``. Raises NotAChange."""
    if text.strip() == GRAPH:
        return Change(GRAPH)
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise NotAChange(f"{text!r} is not a change: type kernel:gemm=0.5 (KIND:REGEX=FACTOR) or {GRAPH}")
    kind, pattern, amount = match[1], match[2] or "", match[3]
    if kind not in KINDS:
        raise NotAChange(f"{kind!r} is not a kind of change; kinds: {', '.join(KINDS)}, {GRAPH}")
    try:
        re.compile(pattern)
    except re.error as error:
        raise NotAChange(f"{pattern!r} is not a regular expression: {error}") from None
    if amount == "peak":
        if kind not in ("kernel", "op", "copy"):
            raise NotAChange(f"peak applies to kernels, operators and copies, not to {kind}")
        return Change(kind, pattern, None)
    try:
        factor = float(amount)
    except ValueError:
        factor = math.nan
    if not 0 <= factor <= 1000:
        raise NotAChange(f"{amount!r} is not a factor; give a number from 0 to 1000, or peak")
    return Change(kind, pattern, factor)
