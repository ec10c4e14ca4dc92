"""The signs the screens draw with, and their plain forms for terminals that have none (``--ascii``).

Widgets always draw with the full set; where the terminal cannot show it, ``Plain`` replaces every sign by one of the
same width on the way out, so that no widget knows about it. What must stay true: each replacement is one cell wide and
plain ASCII, and a bar or sparkline still reads as more or less.
"""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from ...analysis.core.units import LEVELS

EIGHTHS = " ▏▎▍▌▋▊▉"
"""A cell filled from the left by 0 to 7 eighths; full is ``FULL``."""

FULL, REST = "█", "░"
DOWN, UP = "↓", "↑"
"""Sorted largest first, smallest first."""

MARK = "●"
"""A marked row."""

OPEN, CLOSED = "▾", "▸"
"""A group with its rows in sight, or not."""

HERE = "▌"
"""The row of the cursor, beside its colour, so that no colour is needed to find it."""

MORE_LEFT, MORE_RIGHT = "‹", "›"
"""Columns are out of sight on that side."""

def _dots(code: int) -> str:
    """A sign for a character of braille: high, in the middle, low, or a line through it."""
    rows = [row for row, bits in enumerate((0x09, 0x12, 0x24, 0xC0)) if code & bits]
    if not rows:
        return " "
    return "|" if len(rows) > 2 else "'" if rows[-1] == 0 else "_" if rows[0] == 3 else "-" if len(rows) == 1 else ":"


_SIGNS = {
    "↓": "v", "↑": "^", "→": ">", "←": "<", "●": "*", "○": "o", "▌": ">", "‹": "<", "›": ">", "…": "~", "–": "-",
    "—": "-", "−": "-", "×": "x", "µ": "u", "μ": "u", "Δ": "d", "σ": "s", "β": "b", "±": "~", "·": ".", "•": "*",
    "≤": "<", "≥": ">", "≈": "~", "▲": "^", "▼": "v", "▶": ">", "◀": "<", "▸": ">", "▾": "v", "✓": "+", "✗": "x",
    "⚠": "!", "◆": "+", "■": "#", "□": "o", "⏎": "<", "⋮": ":", "°": "o", "\N{NO-BREAK SPACE}": " ",
}
_PLAIN = (
    {chr(code): "#" for code in range(0x2580, 0x25A0)}
    | {chr(code): "+" for code in range(0x2500, 0x2580)}
    | {chr(0x2800 + code): _dots(code) for code in range(256)}
    | dict.fromkeys("─━═╌╍┄┅┈┉╴╶╸╺", "-")
    | dict.fromkeys("│┃║╎╏┆┇┊┋╵╷╹╻▐▕", "|")
    | dict(zip(LEVELS, "_.:-=+*#", strict=True))
    | dict(zip(EIGHTHS[1:], "..:-==#", strict=True))
    | _SIGNS
)
_TABLE = str.maketrans(_PLAIN)


def plain(text: str) -> str:
    """The text with every sign of ours replaced by an ASCII one of the same width; recorded letters stay."""
    return text if text.isascii() else text.translate(_TABLE)


class Plain(LineFilter):
    """Draws with ASCII only: the ``--ascii`` terminal."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments with their text replaced by ``plain``."""
        return [Segment(plain(text), style, control) for text, style, control in segments]
