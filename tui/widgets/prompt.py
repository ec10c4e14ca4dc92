"""The input line at the bottom: search, filter, file name, SQL. Errors are shown beside the input.

It covers the footer while open and is hidden otherwise. If it was opened with a ``Helper``, Tab completes the word at
the cursor, and ↑ and ↓ recall earlier input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import Input

from ...analysis.core.text import display
from ..session.keys import KEYS
from ..session.messages import TerminalRequest
from ..session.programs import edited
from .chrome import Line

Kind = Literal["search", "filter", "export", "open", "goto", "note", "sql", "change"]
_LABEL: dict[Kind, str] = {
    "search": "/", "filter": "filter ", "export": "write to ", "open": "open ", "goto": "go to ", "note": "note ",
    "sql": "sql, Esc leaves ", "change": "change ",
}
_EDITED: dict[str, str] = {"sql": ".sql", "note": ".txt"}
"""Prompts whose text can be written in an editor, with the ending of its file."""
_OFFERED = 12
"""Most completions listed at once."""


class Helper(Protocol):
    """Completions and history for one kind of input."""

    def completions(self, before: str, after: str) -> tuple[int, tuple[str, ...]]:
        """Start of the word at the cursor, and its completions, likeliest first."""
        ...

    def history(self) -> list[str]:
        """Earlier inputs, newest last."""
        ...


def _common_beginning(words: Sequence[str]) -> str:
    """The longest common prefix of the words, in lower case."""
    first, last = min(map(str.lower, words)), max(map(str.lower, words))
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:same]


class Prompt(Horizontal):
    """One line of input for one purpose at a time."""

    DEFAULT_CSS = """
    Prompt { height: 1; background: $panel; display: none; }
    Prompt #label { width: auto; }
    Prompt Input, Prompt Input:focus { height: 1; border: none; padding: 0; background: $panel; width: 1fr; }
    Prompt Input { min-width: 12; }
    Prompt #error { max-width: 80%; color: $error; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "drop", "drop", show=False), Binding("ctrl+c", "drop", "drop", show=False),
        Binding("tab", "complete", "complete", show=False), Binding("up", "recall(-1)", "before", show=False),
        Binding("down", "recall(1)", "after", show=False),
        *(Binding(key.keys, key.action, key.label, show=False, id=key.id, priority=True)  # before the line's own keys
          for key in KEYS if key.place == "prompt"),
    ]

    class Edited(Message):
        """The input changed; ``final`` if Enter was pressed."""

        def __init__(self, kind: Kind, text: str, final: bool) -> None:
            super().__init__()
            self.kind, self.text, self.final = kind, text, final

    class Cancelled(Message):
        """The prompt was cancelled with Esc."""

        def __init__(self, kind: Kind) -> None:
            super().__init__()
            self.kind = kind

    def __init__(self) -> None:
        super().__init__()
        self.kind: Kind = "search"
        self._label, self._error = Line(id="label"), Line(id="error")
        self._input = Input(compact=True, select_on_focus=False)
        self._label.styles.width = 9
        self._helper: Helper | None = None
        self._recalled = 0
        self._draft = ""

    def compose(self) -> ComposeResult:
        """Label, input, error."""
        yield self._label
        yield self._input
        yield self._error

    def open(self, kind: Kind, text: str = "", placeholder: str = "", helper: Helper | None = None) -> None:
        """Open the prompt for that purpose with ``text`` as its input."""
        self.kind = kind
        self._helper, self._recalled, self._draft = helper, 0, text
        label = _LABEL[kind]
        self._label.styles.width = len(label) + 1
        self._label.show_text(Content.styled(f" {label}", "bold $primary"))
        self.fail("")
        with self._input.prevent(Input.Changed):
            self._input.value = text
        self._input.placeholder = placeholder
        self._input.cursor_position = len(text)
        self.display = True
        self.screen.set_focus(self._input)  # immediately: the next key may already be there

    def fail(self, error: str) -> None:
        """Show an error beside the input; '' removes it."""
        self._beside(error, "$error")

    def action_complete(self) -> None:
        """Complete the word at the cursor as far as it is unambiguous, and list the completions left."""
        if self._helper is None:
            return
        at, text = self._input.cursor_position, self._input.value
        begin, words = self._helper.completions(text[:at], text[at:])
        if not words:
            self.app.bell()
            return
        common = _common_beginning(words)
        word = words[0] + ("" if words[0].endswith(("(", ":", "=")) else " ") if len(words) == 1 else common
        if len(words) == 1 or len(common) > at - begin:
            self._input.value = text[:begin] + word + text[at:].removeprefix(" " if word.endswith(" ") else "")
            self._input.cursor_position = begin + len(word)
        if len(words) > 1:
            more = f" and {len(words) - _OFFERED} more" if len(words) > _OFFERED else ""
            self.call_after_refresh(self.hint, " ".join(words[:_OFFERED]) + more)

    def action_recall(self, step: int) -> None:
        """Recall an earlier or a later input."""
        past = self._helper.history() if self._helper is not None else []
        place = self._recalled - step
        if not 0 <= place <= len(past):
            return
        if self._recalled == 0:
            self._draft = self._input.value
        self._recalled = place
        self._input.value = past[-place] if place else self._draft
        self._input.cursor_position = len(self._input.value)

    def action_edit(self) -> None:
        """Write the text in the user's editor, where it may have several lines; they come back as one."""
        if self.kind not in _EDITED:
            self._input.action_end()
            return
        text, suffix = self._input.value, _EDITED[self.kind]

        def take(value: object) -> None:
            if isinstance(value, str):
                self._input.value = " ".join(value.split())
                self._input.cursor_position = len(self._input.value)
            else:
                self.fail(str(value))

        self.app.post_message(TerminalRequest(lambda: edited(text, suffix), take))

    def hint(self, text: str) -> None:
        """Show a hint beside the input."""
        self._beside(text, "dim")

    def _beside(self, text: str, style: str) -> None:
        note = Content.styled(f" {display(text, 200)} ", style)
        self._error.display, self._error.styles.width = bool(text), note.cell_length
        self._error.show_text(note)

    def close(self) -> None:
        """Hide the prompt."""
        self.display = False

    def on_input_changed(self, event: Input.Changed) -> None:
        """Report every change, so that search works while typing."""
        event.stop()
        if self.display:
            self.fail("")
            self.post_message(self.Edited(self.kind, event.value, final=False))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter: report the final input."""
        event.stop()
        self.post_message(self.Edited(self.kind, event.value, final=True))

    def action_drop(self) -> None:
        """Esc: cancel the prompt."""
        self.close()
        self.post_message(self.Cancelled(self.kind))
