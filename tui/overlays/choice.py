"""A dialog that offers a few choices, each with its key, such as export formats."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content

from .overlay import ClosesOnce, Lines


class ChoiceScreen(ClosesOnce[str | None]):
    """One line per choice with its key; returns the key, or None."""

    DEFAULT_CSS = """
    ChoiceScreen { align: center middle; background: $background 40%; }
    ChoiceScreen Vertical { width: auto; min-width: 40; max-width: 90%; height: auto; background: $surface;
        padding: 1 2; }
    ChoiceScreen Lines { width: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "close", "close"), Binding("ctrl+c", "close", show=False),
    ]

    def __init__(self, title: str, choices: dict[str, str]) -> None:
        """``choices``: key → text shown."""
        super().__init__()
        self._title, self._choices = title, choices
        self.lines = Lines()

    def compose(self) -> ComposeResult:
        """The lines of the dialog."""
        panel = Vertical(self.lines)
        panel.shrink = False  # else its width is the least, and the lines wrap
        yield panel

    def on_mount(self) -> None:
        """Fill in the choices."""
        result = [Content.styled(self._title, "bold $primary"), Content("")]
        result += [Content.assemble((f"  {key}  ", "bold $primary"), text) for key, text in self._choices.items()]
        self.lines.show_text(Content("\n").join([*result, Content(""), Content.styled("Esc closes", "dim")]))

    def on_key(self, event: events.Key) -> None:
        """Return the choice whose key was pressed."""
        if event.key in self._choices:
            event.stop()
            self.dismiss(event.key)

    def action_close(self) -> None:
        """Return None."""
        self.dismiss(None)
