"""Opening runs: the interface of the app to the loaders, and the state of each run while it loads.

The screens know no format, so the command line passes in an opener: it starts a load in a separate process, reports
the events of the loaders' contract from a thread of its own, and can be stopped at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct, field

from ...loaders.events import Event, Failed, FirstRows, Loaded, Progress

if TYPE_CHECKING:
    from ...analysis.contract.view import Runs


class Opening(Protocol):
    """One load: started once, may be cancelled at any time from any thread."""

    def start(self, on_event: Callable[[Event], None]) -> None:
        """Begin in a separate process; ``on_event`` is called on a separate thread."""
        ...

    def cancel(self) -> None:
        """Stop at once, without waiting."""
        ...

    def wait(self, timeout: float | None = None) -> None:
        """Wait, at most ``timeout`` s, for the last event or, after ``cancel``, until the load is cleaned up."""
        ...


Opener = Callable[[str], Opening]


class Found(Protocol):
    """A file recognised as a trace, for the picker."""

    @property
    def path(self) -> Path:
        """Its path."""
        ...

    @property
    def bytes(self) -> int | None:
        """Its size; None where unknown."""
        ...

    @property
    def format(self) -> str:
        """The format that recognised it."""
        ...


Discover = Callable[[Path], Iterable[Found]]
"""Yields recognised traces under a folder while it searches."""
Recorded = Callable[[Any, int | None, int, str], dict[str, Any]]
"""The arguments of an event as recorded in its file, given the recording (its ``info``), rank, byte offset and name."""

class Recorder(Protocol):
    """Records the job that the runs came from again: every so often by itself, and when it is asked to."""

    def start(self, on_recorded: Callable[[Path | None, str], None]) -> None:
        """From now on call ``on_recorded``, on a thread of its own, with each new recording and what is missing in it,
        or with None and the reason why there is none."""
        ...

    def again(self) -> str:
        """Record once more. Returns why that cannot be, or an empty text."""
        ...

    def stop(self) -> None:
        """Give up what is being recorded, and leave the job alone."""
        ...


MOMENT = 0.25
"""A load shorter than this many seconds is not mentioned on the screen."""
_CLEANING_UP = 5.0
"""Seconds the app waits at exit for a stopped load to be cleaned up; it takes a few ms."""

State = Literal["loading", "loaded", "failed", "stopped"]


class Run(Struct, eq=False):
    """One input being opened: its progress while loading, then its traces, or a message if it cannot be read."""

    path: str
    state: State = "loading"
    done: int = 0
    total: int = 0
    events: int = 0
    traces: Runs = ()
    partial: bool = False
    message: str = ""
    advice: str = ""
    started: float = field(default_factory=time.monotonic)
    first_done: int = 0
    read: int = 0
    of: int = 0
    """``read`` of ``of`` recordings of a job are shown; both 0 for a single file."""
    opening: Opening | None = None

    @property
    def name(self) -> str:
        """The file name, for status lines."""
        return Path(self.path).name or self.path

    def open(self, opener: Opener, on_change: Callable[[Run], None]) -> None:
        """Start loading; ``on_change`` is called from the reading thread on every event except progress."""
        if self.opening is not None:
            return  # standard input is opened before the TUI takes over the terminal
        try:
            self.opening = opener(self.path)
            self.opening.start(lambda event: self._take(event, on_change))
        except OSError as error:
            self._fail(f"{self.path}: cannot be read: {error.strerror or error}")
            on_change(self)

    def _take(self, event: Event, on_change: Callable[[Run], None]) -> None:
        if self.state != "loading":
            return  # a late event of a load that was stopped
        match event:
            case Progress():
                if not self.done:
                    self.started, self.first_done = time.monotonic(), event.done
                self.done, self.total, self.events = event.done, event.total, event.events
                return
            case FirstRows():
                self.traces, self.partial = event.traces, True  # opens the tables here, on the reading thread
                self.read, self.of = event.read, event.of
            case Loaded():
                try:
                    traces = event.traces
                except Exception as error:
                    self._fail(str(error))
                else:
                    self.traces, self.partial, self.state = traces, False, "loaded"
            case Failed():
                self._fail(event.message, event.advice)
        on_change(self)

    def _fail(self, message: str, advice: str = "") -> None:
        self.message, self.advice, self.state = message, advice, "failed"

    def stop(self) -> bool:
        """Stop the load if it is running; rows already shown stay. True if it was running."""
        if self.state != "loading":
            return False
        self.state = "stopped"
        if self.opening is not None:
            self.opening.cancel()
        return True

    def wait_for_end(self) -> None:
        """After ``stop``, before the app exits: wait until the partly read data is removed, 5 s at most."""
        if self.state == "stopped" and self.opening is not None:
            self.opening.wait(_CLEANING_UP)

    @property
    def is_worth_showing(self) -> bool:
        """Whether the screen should mention the load. Not one that finishes within ``MOMENT``: changing the layout
        for it and back would only delay the rows."""
        if self.state != "loading":
            return self.state != "loaded"
        return self.done > 0 or time.monotonic() - self.started >= MOMENT

    @property
    def rate(self) -> float:
        """Bytes per second since the first progress event; 0.0 until it can be measured."""
        elapsed = time.monotonic() - self.started
        return (self.done - self.first_done) / elapsed if elapsed > 0.2 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Estimated from the rate so far; None where the size or the rate is unknown."""
        if not self.total or not self.rate:
            return None
        return max(0.0, (self.total - self.done) / self.rate)
