"""The line of a stack that asked for memory: the innermost one that is no library's."""

from __future__ import annotations

import re

_LIBRARY = re.compile(
    r"^\?\?|[/\\]torch[/\\]|[/\\](?:dist|site)-packages[/\\]|^torch[/\\]|^<|[/\\]lib[/\\]python\d|\.(?:cpp|cc|cu|cuh|h|so)\b"
)
UNKNOWN, BEFORE = "(no stack recorded)", "(there before the recording)"


def is_library(frame: str) -> bool:
    """Whether a frame is of a library, or of none."""
    return _LIBRARY.search(frame) is not None


def asking(stack: str | None) -> str:
    """The frame of a stack (a line a frame, innermost first) that is the user's own; the innermost where none is."""
    if not stack:
        return UNKNOWN
    frames = stack.split("\n")
    return next((frame for frame in frames if not is_library(frame)), frames[0])
