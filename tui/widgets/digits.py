"""Numbers three rows high: the one number of a verdict."""

from __future__ import annotations

from textual.content import Content

from ..session.themes import content_style

_GLYPHS = {
    "0": ("█▀█", "█ █", "▀▀▀"), "1": ("▀█ ", " █ ", "▀▀▀"), "2": ("▀▀█", "█▀▀", "▀▀▀"), "3": ("▀▀█", " ▀█", "▀▀▀"),
    "4": ("█ █", "▀▀█", "  ▀"), "5": ("█▀▀", "▀▀█", "▀▀▀"), "6": ("█▀▀", "█▀█", "▀▀▀"), "7": ("▀▀█", "  █", "  ▀"),
    "8": ("█▀█", "█▀█", "▀▀▀"), "9": ("█▀█", "▀▀█", "▀▀▀"), ".": (" ", " ", "▀"), ",": (" ", " ", "▄"),
    "×": ("   ", "▀▄▀", "▀ ▀"), "%": ("▀ █", " █ ", "█ ▄"), "+": ("   ", "▄█▄", " ▀ "), "−": ("   ", "▀▀▀", "   "),
    "=": ("▄▄▄", "▄▄▄", "   "),
}


def big(number: str, caption: str, style: str) -> list[Content]:
    """The number in that style and what it is below, a line for each part; what has no large form stands in the last
    row."""
    rows = ["", "", ""]
    for character in number:
        glyph = _GLYPHS.get(character, (" ", " ", character))
        rows = [row + part + " " for row, part in zip(rows, glyph, strict=True)]
    made = [Content.styled(row, f"bold {style}".strip()) for row in rows]
    return [*made, *(Content.styled(part, content_style("dim")) for part in caption.split(", "))]

