"""How the list looks, to be read: WARPLENS_GOLDEN=write makes the files anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from list_app import ListApp, kernels
from rich.style import Style

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


@pytest.mark.parametrize(
    ("name", "size", "theme", "plain"),
    [("80x24", (80, 24), "dark", False), ("120x40", (120, 40), "light", False),
     ("200x60", (200, 60), "terminal", False), ("40x12", (40, 12), "dark", False),
     ("monochrome", (120, 12), "monochrome", False), ("ascii", (120, 12), "dark", True)],
)
async def test_looks(name: str, size: tuple[int, int], theme: str, plain: bool) -> None:
    """The cursor on the second row, which is marked, sorted by total, 'gemm' searched for."""
    app = ListApp(kernels(500), theme=theme, ascii_only=plain)
    async with app.run_test(size=size) as pilot:
        app.list.sort_by("total_ns")
        app.list.search("gemm")
        await pilot.press("g", "j", "space", "k")
        await pilot.pause()
        strips = app.screen._compositor.render_strips()
    lines = ["".join(segment.text for segment in strip).rstrip() for strip in strips]
    if name == "monochrome":
        styles = [segment.style or Style() for strip in strips for segment in strip]
        assert {style.color.name for style in styles if style.color} <= {"default"}
        lines += ["", *("".join(_mark(segment.style) * len(segment.text) for segment in strip) for strip in strips)]
    if plain:
        assert all(line.isascii() for line in lines)
    shown = "\n".join(lines) + "\n"
    file = GOLDEN / f"list_{name}.txt"
    if os.environ.get("WARPLENS_GOLDEN") == "write":
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")


def _mark(style: Style | None) -> str:
    """One letter for what carries meaning without colour."""
    style = style or Style()
    return "R" if style.reverse else "B" if style.bold else "U" if style.underline else "d" if style.dim else "."
