"""A flame graph as SVG: boxes as wide as their time or samples, outermost on top, each with a tooltip.

Kernels have one colour, the frames around them two others. With two runs, a box that takes longer in B is orange, one
that takes less is blue, and its tooltip has both figures. Recorded strings appear only as escaped text.
"""

from __future__ import annotations

from html import escape

from ...core import units
from ...core.text import cut, display
from ..flame import CALLS, OUTER, WEIGHTS, Flame, Frame, flame_of
from ..table import Table

WIDTH, LINE, LEFT = 1200, 18, 8
_CELL = 6.7  # Width of a character at a font size of 11, pixels.
_LEAST = 0.3  # Pixels below which a box is not drawn.
_OUTER, _CALL, _KERNEL = "#c9ae74", "#e0a070", "#9db4d0"
_MORE, _LESS, _SAME = "#ff9a5c", "#7fb2ff", "#cfcfcf"
SAME = 0.05
"""Relative difference up to which a box counts as unchanged between two runs."""


def changed(frame: Frame) -> int:
    """1 if a frame of two runs is longer in B, -1 if it is shorter, 0 if it is about the same."""
    before = frame.before or 0
    if abs(frame.value - before) <= SAME * max(frame.value, before):
        return 0
    return 1 if frame.value > before else -1


def title(flame: Flame) -> str:
    """One line that says what the picture shows."""
    per = " per cycle" if flame.per == "cycle" and flame.before is not None else ""
    if flame.before is None:
        return f"{WEIGHTS[flame.weight]}, {flame.amount(flame.total)}"
    lost = f"; {flame.amount(flame.lost)} only in A" if flame.lost else ""
    return f"{WEIGHTS[flame.weight]}{per}, {flame.amount(flame.before)} → {flame.amount(flame.total)}{lost}"


def described(flame: Flame, frame: Frame) -> str:
    """A frame's width and share; with two runs, also its width in A."""
    share = units.percent(100 * frame.value / max(1, flame.total))
    if frame.before is None:
        return f"{flame.amount(frame.value)}, {share}"
    return f"{flame.amount(frame.before)} → {flame.amount(frame.value)}, {share} of B"


def render(table: Table) -> bytes:
    """The picture of the tree by the table's flame-graph weight."""
    flame = flame_of(table)
    scale = (WIDTH - 2 * LEFT) / max(1, flame.total)
    shown = [frame for frame in flame.frames if frame.value * scale >= _LEAST]
    height = LINE * (3 + max((frame.depth for frame in shown), default=0)) + 8
    head = " → ".join(display(source.label, 60) for source in table.sources)
    result = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        '<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="11" fill="#000000">',
        f'<text x="{LEFT}" y="{LINE - 4}">{escape(f"{head}: {title(flame)}")}</text>',
    ]
    for frame in shown:
        x, width, y = LEFT + frame.start * scale, frame.value * scale, LINE * (frame.depth + 1)
        text = cut(display(frame.name), int((width - 4) / _CELL))
        result.append(
            f'<g><title>{escape(f"{display(frame.name)}: {described(flame, frame)}")}</title>'
            f'<rect x="{x:.2f}" y="{y}" width="{max(0.2, width - 0.5):.2f}" height="{LINE - 1}" rx="1" '
            f'fill="{_fill(frame)}"/>'
            + (f'<text x="{x + 2:.2f}" y="{y + LINE - 5}">{escape(text)}</text>' if len(text) > 1 else "") + "</g>")
    return "\n".join([*result, "</g>", "</svg>", ""]).encode("utf-8", "backslashreplace")


def _fill(frame: Frame) -> str:
    if frame.before is not None:
        return (_SAME, _MORE, _LESS)[changed(frame)]
    return _OUTER if frame.kind in OUTER else _CALL if frame.kind in CALLS else _KERNEL
