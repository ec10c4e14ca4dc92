"""SVG: a view as a picture for a page or a slide, exactly the lines of the text and markdown exports.

Each line is one run of monospaced text with a fixed cell width, so that columns and the timeline stay aligned in any
viewer's font; recorded strings appear only as escaped text.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rich.cells import cell_len

from ...core.text import clean
from ..flame import weights_of
from ..table import Table
from .flame_picture import render as flame_picture
from .text import block

CELL, LINE = 8.4, 17
"""Width of a character and height of a line, pixels, at a font size of 14."""
_BACKGROUND, _INK = "#121212", "#d0d0d0"


def render(tables: Sequence[Table]) -> bytes:
    """The views one below the other; a tree becomes a flame graph."""
    if len(tables) == 1 and weights_of(tables[0]):
        return flame_picture(tables[0])
    lines = [clean(line) for table in tables for line in block(table).splitlines()]
    width = CELL * (max((cell_len(line) for line in lines), default=0) + 2)
    height = LINE * (len(lines) + 1)
    result = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'width="{width:.0f}" height="{height}">',
        f'<rect width="100%" height="100%" fill="{_BACKGROUND}"/>',
        f'<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="{_INK}" '
        'xml:space="preserve">',
    ]
    for number, line in enumerate(lines, 1):
        if line.strip():
            length = f'textLength="{CELL * cell_len(line):.1f}" lengthAdjust="spacingAndGlyphs"'
            text = escape(line, quote=False)
            result.append(f'<text x="{CELL:.1f}" y="{LINE * number}" {length} xml:space="preserve">{text}</text>')
    return "\n".join([*result, "</g>", "</svg>", ""]).encode("utf-8", "backslashreplace")
