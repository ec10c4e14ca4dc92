"""Keeps recorded text from acting on the terminal: the last two of three defences (the first is ``core.text``).

Widgets get their text as Content made by ``display_content``, never as a string that Textual would parse as markup; a
test scans the sources for violations. And everything written to the terminal passes ``outgoing``, which lets through
text and the escape sequences this app sends, and replaces anything else by U+FFFD. Invariant: ``outgoing`` lists each
sequence the app sends, by its exact shape; a new one is added there and nowhere else.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.content import Content
from textual.filter import LineFilter

from ...analysis.core.text import display

if TYPE_CHECKING:
    from textual.driver import Driver

REPLACEMENT = "\ufffd"

ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""Characters that a terminal, or the bidi algorithm, acts on instead of displaying."""

_BASE64 = "[A-Za-z0-9+/=]*"
_OWN = re.compile(
    "|".join(
        (
            r"\x1b\[[0-9;:]*[HmKJCABDLMru]",  # cursor, style, erase, lines, margins
            r"\x1b\[[?>=<][0-9;]*[hlu]",  # modes of terminal and keyboard
            r"\x1b\[\?[0-9]+\$p",  # query: is a mode supported
            r"\x1b\[[56]n",  # query: status, cursor position
            rf"\x1b\]52;c;{_BASE64}\x07",  # clipboard
            rf"\x1bP(?:\x1b\]52;c;)?{_BASE64}\x07?\x1b\\",  # clipboard through screen, in parts
            r"\x1b\]22;[a-z-]*\x07",  # pointer shape
            r"[\x07\r\n]",
        )
    )
)
_TOKEN = re.compile(f"({_OWN.pattern})|{ACTING.pattern}")
_HARMLESS = re.compile(f"(?:[^{ACTING.pattern[1:-1]}]++|{_OWN.pattern})*+").fullmatch
"""Matches if nothing is to be replaced, the usual case; possessive, so it never backtracks on any input."""


def display_content(raw: str, style: str = "", width: int | None = None) -> Content:
    """A recorded string as Content for a widget: display text, no markup, cut to ``width`` cells if given."""
    return Content.styled(display(raw, width), style) if style else Content(display(raw, width))


def printable(text: str) -> str:
    """Text of a cell with all acting characters replaced; plain text is returned unchanged."""
    return text if text.isascii() and text.isprintable() else ACTING.sub(REPLACEMENT, text)


_SINGLE = re.compile("[ -~\u00a1-\u00ac\u00ae-\u02ff\u2013\u2014\u2026\u2190-\u2193\u2500-\u259f]*").fullmatch
"""Text of one-cell characters that no terminal acts on: most of what is ever shown."""


def single(text: str) -> bool:
    """Whether each character is known to take one cell, so that nothing has to be measured or replaced."""
    return (text.isascii() and text.isprintable()) or _SINGLE(text) is not None


def cells(text: str) -> int:
    """Terminal cells of the text; measured only if it is not ``single``."""
    return len(text) if single(text) else cell_len(text)


def outgoing(data: str) -> str:
    """``data`` as it may be sent to the terminal: text and our own sequences; anything else becomes U+FFFD."""
    if _HARMLESS(data):
        return data
    return _TOKEN.sub(lambda match: match[1] or REPLACEMENT, data)


class Printable(LineFilter):
    """Removes control characters from the lines of all widgets."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments with ``printable`` text."""
        return [Segment(printable(text), style, control) for text, style, control in segments]


@cache
def guarded(driver: type[Driver]) -> type[Driver]:
    """The driver class with a ``write`` that passes all data through ``outgoing``."""

    def write(self: Driver, data: str) -> None:
        driver.write(self, outgoing(data))

    return type(driver.__name__, (driver,), {"write": write})
