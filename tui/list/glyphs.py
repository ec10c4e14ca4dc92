"""Glyphs the screens are drawn with, and their ASCII replacements (``--ascii``).

Widgets always draw with the full set; for a terminal that cannot show it, ``Plain`` replaces every glyph by one of the
same width in the output, so that no widget has to know. Invariant: each replacement is one ASCII character, one cell
wide, and bars and sparklines still show more and less.
"""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from ...analysis.core.units import LEVELS

EIGHTHS = " ▏▎▍▌▋▊▉"
"""A cell filled from the left by 0 to 7 eighths; 8 eighths are ``FULL``."""

FULL, REST = "█", "░"
DOWN, UP = "↓", "↑"
"""Sorted largest first, smallest first."""

MARK = "●"
"""A marked row."""

OPEN, CLOSED = "▾", "▸"
"""An open or a closed group."""

HERE = "▌"
"""The cursor's row, marked so that it can be found without colour."""

MORE_LEFT, MORE_RIGHT = "‹", "›"
"""More columns on that side."""

def _dots(code: int) -> str:
    """ASCII for a braille pattern: high, middle or low dots, or a vertical line."""
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
    """The text with all our glyphs replaced by ASCII of the same width; recorded letters stay."""
    return text if text.isascii() else text.translate(_TABLE)


class Plain(LineFilter):
    """Replaces glyphs by ASCII, for ``--ascii``."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments with ``plain`` text."""
        return [Segment(plain(text), style, control) for text, style, control in segments]
