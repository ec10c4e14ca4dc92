"""Base of the text panels over the screen (help, details, warnings), closed by Esc, q or the key of a view to go to.

On a wide terminal the panel takes the right part, so that the list stays visible; on a narrow one the whole screen. Its
content is made of display text only.
"""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.app import ComposeResult, RenderResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget

from ..session.keys import view_bindings
from ..session.messages import ViewRequest
from ..widgets.chrome import Line
from ..widgets.drawing import wrapped
from ..widgets.sections import heading

Result = TypeVar("Result")


class ClosesOnce(ModalScreen[Result]):
    """A screen over another. A second Enter or Esc that arrives before it is gone does not close the screen below."""

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close the screen and return the result; nothing once it is closed."""
        return super().dismiss(result) if self.app.screen is self else AwaitComplete.nothing()


class Lines(Widget):
    """Lines of Content; the widget is as high as they are."""

    DEFAULT_CSS = "Lines { height: auto; width: 1fr; }"
    can_focus = False

    def __init__(self) -> None:
        super().__init__()
        self.content = Content("")

    def show_text(self, content: Content) -> None:
        """Set the content."""
        self.content = content
        self.refresh(layout=True)

    def render(self) -> RenderResult:
        """The current content."""
        return self.content


class Scroll(VerticalScroll, can_focus=True):
    """Scrolls with the same keys as the lists."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "scroll_down", show=False), Binding("up,k", "scroll_up", show=False),
        Binding("pagedown,space", "page_down", show=False), Binding("pageup", "page_up", show=False),
        Binding("home,g", "scroll_home", show=False), Binding("end,G", "scroll_end", show=False),
    ]


class Overlay(ClosesOnce[None]):
    """A titled panel of text lines."""

    DEFAULT_CSS = """
    Overlay { align: right top; background: $background 40%; }
    Overlay #panel { width: 60%; min-width: 76; max-width: 110; height: 100%; background: $surface; padding: 0; }
    Overlay.narrow #panel { width: 100%; min-width: 0; max-width: 100%; }
    Overlay Scroll { padding: 0 1; height: 1fr; background: $surface; scrollbar-size-vertical: 1; }
    Overlay #title { background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "close"), Binding("ctrl+c", "close", show=False), *view_bindings(),
    ]

    def __init__(self, title: str) -> None:
        super().__init__()
        self.heading = title
        self.lines = Lines()
        self.scroll = Scroll(self.lines)

    def compose(self) -> ComposeResult:
        """The title above the scrolling lines."""
        line = Line(id="title")
        line.show_text(Content.styled(f" {self.heading}", "bold $primary"), Content.styled("Esc closes ", "dim"))
        panel = VerticalScroll(line, self.scroll, id="panel", can_focus=False)
        panel.styles.overflow_y = "hidden"
        yield panel

    def on_mount(self) -> None:
        """Focus the panel and fill it."""
        self.set_class(self.app.size.width < 110, "narrow")
        self.scroll.focus()
        self.fill()

    def on_resize(self) -> None:
        """Use the full width of a narrow terminal."""
        self.set_class(self.app.size.width < 110, "narrow")
        self.call_after_refresh(self.fill)

    @property
    def room(self) -> int:
        """Cells per line."""
        return max(20, self.scroll.size.width - 3)

    def fill(self) -> None:
        """Set the content; called again when the width changed."""

    def action_close(self) -> None:
        """Close the panel."""
        self.dismiss()

    def action_view(self, name: str) -> None:
        """The key of a view: close the panel and open that view."""
        self.dismiss()
        self.app.post_message(ViewRequest(name))


class WarningsScreen(Overlay):
    """Warnings about the inputs and notes of the view."""

    def __init__(self, sections: list[tuple[str, list[str]]]) -> None:
        super().__init__("Warnings and notes")
        self._sections = sections

    def fill(self) -> None:
        """One section per run, and one for the view."""
        result: list[Content] = []
        for title, sentences in self._sections:
            lines = [line for text in sentences for line in wrapped(text, self.room, "• ")]
            result += [heading(title), *lines, Content("")]
        self.lines.show_text(Content("\n").join(result))
