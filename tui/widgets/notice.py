"""A sentence in place of content that cannot be shown."""

from __future__ import annotations

from textual.app import RenderResult
from textual.content import Content
from textual.widget import Widget

from ..list.frame import Frame, boxed
from .drawing import joined, wrapped


class Notice(Widget, can_focus=True):
    """A sentence in place of content that cannot be shown; it has the view's focus meanwhile."""

    def __init__(self, title: str, classes: str = "") -> None:
        super().__init__(classes=classes)
        self._title, self._text = title, ""

    def show_text(self, text: str) -> None:
        """Set the sentence; it must be display text."""
        if text != self._text:
            self._text = text
            self.refresh(layout=True)

    def render(self) -> RenderResult:
        """The sentence in a frame."""
        width = self.size.width or 80
        return joined(boxed(self._lines(width), Frame(self._title), width, self.has_focus))

    def _lines(self, width: int) -> list[Content]:
        return [line for text in self._text.split("\n") for line in wrapped(text, width - 4)]

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """As many lines as the wrapped sentence and its frame take."""
        return len(self._lines(width)) + 2
