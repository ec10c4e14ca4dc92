"""Nothing recorded acts on the terminal: the last two of three lines of defence (the first is ``analysis.text``).

Widgets get their text as Content made by ``said``, never as a string that Textual would read as markup; a test walks
the sources for strings that go there without it. And everything written to the terminal passes ``outgoing``, which lets
through text and the sequences the screens themselves use, and shows anything else as U+FFFD. What must stay true:
``outgoing`` knows every sequence we send, by its exact shape; a new one is added there and nowhere else.
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

_ACTING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)
"""What a terminal, or the algorithm that orders letters, would act on instead of showing it."""

_BASE64 = "[A-Za-z0-9+/=]*"
_OWN = re.compile(
    "|".join(
        (
            r"\x1b\[[0-9;:]*[HmKJCABDLMru]",  # cursor, style, erase, lines, margins
            r"\x1b\[[?>=<][0-9;]*[hlu]",  # modes of terminal and keyboard
            r"\x1b\[\?[0-9]+\$p",  # is a mode supported
            r"\x1b\[[56]n",  # where is the cursor
            rf"\x1b\]52;c;{_BASE64}\x07",  # to the clipboard
            rf"\x1bPtmux;\x1b\x1b\]52;c;{_BASE64}\x07\x1b\\",  # the same through tmux
            rf"\x1bP(?:\x1b\]52;c;)?{_BASE64}\x07?\x1b\\",  # and through screen, in parts
            r"\x1b\]22;[a-z-]*\x07",  # shape of the pointer
            r"[\x07\r\n]",
        )
    )
)
_TOKEN = re.compile(f"({_OWN.pattern})|{_ACTING.pattern}")
_HARMLESS = re.compile(f"(?:[^{_ACTING.pattern[1:-1]}]++|{_OWN.pattern})*+").fullmatch
"""Nothing to replace, which is nearly always so; never tries a letter twice, whatever it is given."""


def said(raw: str, style: str = "", width: int | None = None) -> Content:
    """A recorded string as Content for a widget: display text, no markup, at most ``width`` cells where given."""
    return Content.styled(display(raw, width), style) if style else Content(display(raw, width))


def printable(text: str) -> str:
    """Text of a cell with everything that would act replaced; what is plain comes back as it is."""
    return text if text.isascii() and text.isprintable() else _ACTING.sub(REPLACEMENT, text)


_SINGLE = re.compile("[ -~\u00a1-\u00ac\u00ae-\u02ff\u2013\u2014\u2026\u2190-\u2193\u2500-\u259f]*").fullmatch
"""Letters and signs that are one cell wide each and that nothing acts on: most of what is ever shown."""


def single(text: str) -> bool:
    """Whether each letter of the text is known to take one cell, so that nothing needs to be measured or replaced."""
    return (text.isascii() and text.isprintable()) or _SINGLE(text) is not None


def cells(text: str) -> int:
    """The cells the text takes; measured only where it is not plain."""
    return len(text) if single(text) else cell_len(text)


def outgoing(data: str) -> str:
    """What may leave for the terminal of ``data``: text and our own sequences; the rest is shown as U+FFFD."""
    if _HARMLESS(data):
        return data
    return _TOKEN.sub(lambda match: match[1] or REPLACEMENT, data)


class Printable(LineFilter):
    """Keeps control characters out of every widget's lines, whoever made them."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments with their text made printable."""
        return [Segment(printable(text), style, control) for text, style, control in segments]


@cache
def guarded(driver: type[Driver]) -> type[Driver]:
    """The driver class with a ``write`` that only lets out what ``outgoing`` does."""

    def write(self: Driver, data: str) -> None:
        driver.write(self, outgoing(data))

    return type(driver.__name__, (driver,), {"write": write})
