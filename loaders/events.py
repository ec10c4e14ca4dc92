"""What happens to a load: the types whoever reads an input and whoever waits for it both speak.

A load gives any number of ``Progress``; ``FirstRows`` once, or of a job again whenever more of its ranks were read; and
at the end one ``Loaded`` or ``Failed``. Nothing
heavy is imported here; the tables of a trace are opened when an event is asked for its ``traces``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .trace import Trace


class Progress(NamedTuple):
    """``done`` of ``total`` bytes of the source were read (``total`` 0: not known) and ``events`` events found."""

    done: int
    total: int
    events: int


class FirstRows(NamedTuple):
    """The first rows can be shown while the rest loads; ``opened`` opens them. Of a job's recordings they are whole
    ones: ``read`` of so many (``of``); both are 0 for the beginning of one file."""

    opened: Callable[[], tuple[Trace, ...]]
    read: int = 0
    of: int = 0

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The traces of the first rows. Raises as ``Loaded.traces`` does."""
        return self.opened()


class Loaded(NamedTuple):
    """The whole input is there; ``opened`` opens it."""

    opened: Callable[[], tuple[Trace, ...]]

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The traces, as ``open_run`` would give them. Raises Unreadable where the files are no one job's."""
        return self.opened()


class Failed(NamedTuple):
    """It cannot be read: a sentence that names the file and the reason, and what to do."""

    message: str
    advice: str = ""


Event = Progress | FirstRows | Loaded | Failed
