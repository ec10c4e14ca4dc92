"""Events of a load, sent by the ingest process and handled by the app.

A load sends any number of ``Progress``; one ``FirstRows``, or for a multi-rank job one whenever more ranks have been
read; and finally one ``Loaded`` or ``Failed``. Imports nothing heavy: tables are opened when ``traces`` is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .trace import Trace


class Progress(NamedTuple):
    """``done`` of ``total`` source bytes have been read (``total`` 0: unknown), with ``events`` events so far."""

    done: int
    total: int
    events: int


class FirstRows(NamedTuple):
    """The first rows, to show while the rest loads; ``opened`` opens them. For a multi-rank job these are the complete
    recordings read so far, ``read`` out of ``of``; both are 0 for the beginning of a single file."""

    opened: Callable[[], tuple[Trace, ...]]
    read: int = 0
    of: int = 0

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The traces of the first rows. Raises as ``Loaded.traces`` does."""
        return self.opened()


class Loaded(NamedTuple):
    """The whole input has been read; ``opened`` opens it."""

    opened: Callable[[], tuple[Trace, ...]]

    @property
    def traces(self) -> tuple[Trace, ...]:
        """The traces, as ``open_run`` returns them. Raises Unreadable if the files are not ranks of one job."""
        return self.opened()


class Failed(NamedTuple):
    """The input cannot be read: a sentence with the file and the reason, and what to do."""

    message: str
    advice: str = ""


Event = Progress | FirstRows | Loaded | Failed
