"""What panes, overlays and the screen ask of what is above them.

Whoever shows something imports neither the screen nor the app: it posts one of these messages to the app, or, for what
has to happen within the same frame, calls the screen by the four methods of ``Surroundings``. So imports go one way,
app to screen to panes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from textual.message import Message

if TYPE_CHECKING:
    from ...analysis.table.table import Table


class Surroundings(Protocol):
    """What a pane may do at once to the lines around it."""

    def ask_for(self, kind: Any, text: str = "", placeholder: str = "", helper: Any = None) -> None:
        """Take a line of text; the pane's ``said`` hears what is typed. ``helper`` is a ``prompt.Helper``."""
        ...

    def close_prompt(self) -> None:
        """What was typed is taken."""
        ...

    def refuse(self, reason: str) -> None:
        """What was typed cannot be taken; the prompt stays open and says why."""
        ...

    def tell(self) -> None:
        """Make the lines around the pane true, in the frame that is being made."""
        ...


class ViewWanted(Message):
    """Show that view."""

    def __init__(self, view: str) -> None:
        super().__init__()
        self.view = view


class ActionWanted(Message):
    """Do what a key of that place does: 'pane' is the view shown, anything else the screen."""

    def __init__(self, place: str, action: str) -> None:
        super().__init__()
        self.place, self.action = place, action


class RunsWanted(Message):
    """Open these inputs instead of what is open; ``opened_from`` is the history that going back returns to."""

    def __init__(self, paths: Sequence[str], opened_from: str = "") -> None:
        super().__init__()
        self.paths, self.opened_from = paths, opened_from


class PickerWanted(Message):
    """Choose what to open from a list."""


class WarningsWanted(Message):
    """Show what was wrong in the inputs."""


class StopWanted(Message):
    """Stop what is running."""


class ScopeChanged(Message):
    """The session has another scope: what is shown must be asked again."""


class CycleStepped(Message):
    """Scope to the cycle that many places on."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step


class TaskWanted(Message):
    """Do something beside the view, in the background; it is shown as ``name``, and ``then`` gets what it came to."""

    def __init__(self, name: str, job: Callable[[], Any], then: Callable[[Any], None]) -> None:
        super().__init__()
        self.name, self.job, self.then = name, job, then


class TextCopied(Message):
    """Copy this text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class CopyWanted(Message):
    """Copy the table that ``job`` gives as markdown; ``view`` names the file where no clipboard takes it."""

    def __init__(self, job: Callable[[], Table], view: str) -> None:
        super().__init__()
        self.job, self.view = job, view
