"""Painting that cannot end the app: what fails to be drawn is left out and reported once per recording.

Textual ends the app at an exception in ``render``, and one extreme value in a recording is enough for that. A cell of a
list that fails is drawn as missing; another widget that fails shows one line. WARPLENS_STRICT raises, for tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

FAILED = "could not be drawn"
Painter = TypeVar("Painter", bound=Widget)


class PaintFailed(Message):
    """Something of the recording could not be drawn; ``reason`` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason


def report(widget: Widget, error: Exception) -> None:
    """Report the failure to the app; raise it if WARPLENS_STRICT is set."""
    if os.environ.get("WARPLENS_STRICT"):
        raise error
    widget.post_message(PaintFailed(f"{type(error).__name__}: {error}"))


def lines_or_sentence(
    render_lines: Callable[[Painter, Region], list[Strip]],
) -> Callable[[Painter, Region], list[Strip]]:
    """``render_lines`` that draws a sentence in place of lines that fail."""

    @wraps(render_lines)
    def guarded(self: Painter, crop: Region) -> list[Strip]:
        try:
            return render_lines(self, crop)
        except Exception as error:
            report(self, error)
            style = self.rich_style
            line = Strip([Segment(f" {FAILED}", style)]).adjust_cell_length(crop.width, style)
            return [line if y == 0 else Strip.blank(crop.width, style) for y in range(crop.y, crop.bottom)]

    return guarded


def content_or_sentence(widget: Widget, draw: Callable[..., Content], *arguments: Any) -> Content:
    """What ``draw`` returns, or a sentence if it fails."""
    try:
        return draw(*arguments)
    except Exception as error:
        report(widget, error)
        return Content(f" {FAILED}")
