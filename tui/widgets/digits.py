"""Numbers three rows high: the key figure of an answer."""

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
    """The number in that style and below it its caption, one line per comma-separated part; a character without a large
    form is put in the third row."""
    rows = ["", "", ""]
    for character in number:
        glyph = _GLYPHS.get(character, (" ", " ", character))
        rows = [row + part + " " for row, part in zip(rows, glyph, strict=True)]
    result = [Content.styled(row, f"bold {style}".strip()) for row in rows]
    return [*result, *(Content.styled(part, content_style("dim")) for part in caption.split(", "))]

