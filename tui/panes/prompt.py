"""The line at the bottom that takes text: search, filter, a file name. Errors are said beside what was typed.

It lies over the footer while it is open and is nothing while it is not.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input

from ...analysis.core.text import display
from .chrome import Line

Kind = Literal["search", "filter", "export", "open", "goto", "note"]
_LABEL: dict[Kind, str] = {
    "search": "/", "filter": "filter ", "export": "write to ", "open": "open ", "goto": "go to ", "note": "note ",
}


class Prompt(Horizontal):
    """One line of input for one purpose at a time."""

    DEFAULT_CSS = """
    Prompt { height: 1; background: $panel; display: none; }
    Prompt #label { width: auto; }
    Prompt Input, Prompt Input:focus { height: 1; border: none; padding: 0; background: $panel; width: 2fr; }
    Prompt #error { width: 3fr; color: $error; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "drop", "drop", show=False), Binding("ctrl+c", "drop", "drop", show=False),
    ]

    class Said(Message):
        """What was typed: ``final`` when Enter was pressed."""

        def __init__(self, kind: Kind, text: str, final: bool) -> None:
            super().__init__()
            self.kind, self.text, self.final = kind, text, final

    class Dropped(Message):
        """Esc: nothing is wanted."""

        def __init__(self, kind: Kind) -> None:
            super().__init__()
            self.kind = kind

    def __init__(self) -> None:
        super().__init__()
        self.kind: Kind = "search"
        self._label, self._error = Line(id="label"), Line(id="error")
        self._input = Input(compact=True, select_on_focus=False)
        self._label.styles.width = 9

    def compose(self) -> ComposeResult:
        """Label, input, error."""
        yield self._label
        yield self._input
        yield self._error

    def open(self, kind: Kind, text: str = "", placeholder: str = "") -> None:
        """Take text for that purpose, starting from ``text``."""
        self.kind = kind
        label = _LABEL[kind]
        self._label.styles.width = len(label) + 1
        self._label.say(Content.styled(f" {label}", "bold $primary"))
        self.fail("")
        with self._input.prevent(Input.Changed):
            self._input.value = text
        self._input.placeholder = placeholder
        self._input.cursor_position = len(text)
        self.display = True
        self.screen.set_focus(self._input)  # at once: the next key may be here already

    def fail(self, error: str) -> None:
        """Say what is wrong with what was typed; '' says nothing."""
        self._error.display = bool(error)
        self._error.say(Content.styled(f" {display(error, 200)}", "$error"))

    def close(self) -> None:
        """Out of the way."""
        self.display = False

    def on_input_changed(self, event: Input.Changed) -> None:
        """Tell every change, so that search works while typing."""
        event.stop()
        if self.display:
            self.fail("")
            self.post_message(self.Said(self.kind, event.value, final=False))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        event.stop()
        self.post_message(self.Said(self.kind, event.value, final=True))

    def action_drop(self) -> None:
        """Esc."""
        self.close()
        self.post_message(self.Dropped(self.kind))
