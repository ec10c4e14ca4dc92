"""Messages that panes, overlays and the screen send upwards.

A widget imports neither the screen nor the app: it posts one of these messages to the app, or, for what must happen
within the same frame, calls the screen through the four methods of ``PaneHost``. So imports go one way:
app → screen → panes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from textual.message import Message

if TYPE_CHECKING:
    from ...analysis.table.table import Table


class PaneHost(Protocol):
    """Synchronous calls from a pane to the prompt and the status lines around it."""

    def ask_for(self, kind: Any, text: str = "", placeholder: str = "", helper: Any = None) -> None:
        """Open the prompt; its input goes to the pane's ``prompt_changed``. ``helper`` is a ``prompt.Helper``."""
        ...

    def close_prompt(self) -> None:
        """Close the prompt: its input was accepted."""
        ...

    def refuse(self, reason: str) -> None:
        """Reject the input: the prompt stays open and shows the reason."""
        ...

    def update_lines(self) -> None:
        """Update the lines around the pane within the current frame."""
        ...


class ViewRequest(Message):
    """Show that view."""

    def __init__(self, view: str) -> None:
        super().__init__()
        self.view = view


class ActionRequest(Message):
    """Run the action of a key of that place: 'pane' is the current view, else the screen or the widget in focus."""

    def __init__(self, place: str, action: str) -> None:
        super().__init__()
        self.place, self.action = place, action


class RunsRequest(Message):
    """Open these inputs in place of the current ones; ``opened_from`` is the history that going back returns to."""

    def __init__(self, paths: Sequence[str], opened_from: str = "") -> None:
        super().__init__()
        self.paths, self.opened_from = paths, opened_from


class PickerRequest(Message):
    """Open the picker of traces."""


class RunListRequest(Message):
    """List the open recordings."""


class TerminalRequest(Message):
    """Run ``job`` with the terminal given up, as for an editor; ``then`` gets its value or the exception it raised."""

    def __init__(self, job: Callable[[], Any], then: Callable[[Any], None]) -> None:
        super().__init__()
        self.job, self.then = job, then


class RecordingRequest(Message):
    """Record the job once more."""


class WarningsRequest(Message):
    """Show the warnings about the inputs."""


class StopRequest(Message):
    """Cancel the running query or task."""


class ScopeChanged(Message):
    """The scope of the session changed: views must be asked again."""


class CycleStepped(Message):
    """Scope to the cycle ``step`` places further on."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step


class TaskRequest(Message):
    """Run ``job`` in the background, shown as ``name``; ``then`` gets its value or the exception it raised."""

    def __init__(self, name: str, job: Callable[[], Any], then: Callable[[Any], None]) -> None:
        super().__init__()
        self.name, self.job, self.then = name, job, then


class TextCopied(Message):
    """Copy this text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class CopyRequest(Message):
    """Copy the table ``job`` returns as markdown; ``view`` names the file to write where there is no clipboard."""

    def __init__(self, job: Callable[[], Table], view: str) -> None:
        super().__init__()
        self.job, self.view = job, view
