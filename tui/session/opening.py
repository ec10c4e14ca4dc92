"""Opening runs: what the app needs of whoever reads traces, and what it knows of each run meanwhile.

The screens know no format, so the command line hands in an opener: something that starts a load in a process of its
own, tells what happens from a thread of its own, and can be stopped at once. What it tells are the
events of the loaders' contract.
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
    """One load: starts once, may be cancelled at any time and from any thread."""

    def start(self, on_event: Callable[[Event], None]) -> None:
        """Begin, in a process of its own; events arrive on a thread of its own."""
        ...

    def cancel(self) -> None:
        """Stop at once; nothing is waited for."""
        ...

    def wait(self, timeout: float | None = None) -> None:
        """Wait, seconds at most, for the last event or, after ``cancel``, until nothing is left of the load."""
        ...


Opener = Callable[[str], Opening]


class Found(Protocol):
    """A file that looks like a trace, for the picker."""

    @property
    def path(self) -> Path:
        """Where it is."""
        ...

    @property
    def bytes(self) -> int | None:
        """Its size."""
        ...

    @property
    def format(self) -> str:
        """The format that claims it."""
        ...


Discover = Callable[[Path], Iterable[Found]]
"""Recognised traces under a folder, as they are found."""
Recorded = Callable[[Any, int | None, int, str], dict[str, Any]]
"""The arguments of an event as its file has them: of which recording (its ``info``) and rank, at which byte, and its
name."""

MOMENT = 0.25
"""Seconds a load may take before it is spoken of."""
_CLEANING_UP = 5.0
"""Seconds the end of the program waits for a load that was stopped to be cleaned up; it takes a few ms."""

State = Literal["loading", "loaded", "failed", "stopped"]


class Run(Struct, eq=False):
    """One input being opened: progress while it loads, traces when it has, a sentence when it cannot."""

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
    """Recordings of a job that are shown, of so many; 0 of 0 for one file."""
    opening: Opening | None = None

    @property
    def name(self) -> str:
        """The name of the file, for lines that speak of it."""
        return Path(self.path).name or self.path

    def open(self, opener: Opener, tell: Callable[[Run], None]) -> None:
        """Start loading; ``tell`` is called from the reading thread when something other than progress happened."""
        if self.opening is not None:
            return  # standard input is opened before the screen takes the terminal
        try:
            self.opening = opener(self.path)
            self.opening.start(lambda event: self._take(event, tell))
        except OSError as error:
            self._fail(f"{self.path}: cannot be read: {error.strerror or error}")
            tell(self)

    def _take(self, event: Event, tell: Callable[[Run], None]) -> None:
        if self.state != "loading":
            return  # stopped: late news of a load nobody waits for
        match event:
            case Progress():
                if not self.done:
                    self.started, self.first_done = time.monotonic(), event.done
                self.done, self.total, self.events = event.done, event.total, event.events
                return
            case FirstRows():
                self.traces, self.partial = event.traces, True  # opening the tables happens here, on this thread
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
        tell(self)

    def _fail(self, message: str, advice: str = "") -> None:
        self.message, self.advice, self.state = message, advice, "failed"

    def stop(self) -> bool:
        """Stop the load if it runs; what was shown of it stays. True where there was something to stop."""
        if self.state != "loading":
            return False
        self.state = "stopped"
        if self.opening is not None:
            self.opening.cancel()
        return True

    def wait_for_end(self) -> None:
        """After ``stop``, before the program ends: until what was half read is removed, a moment at most."""
        if self.state == "stopped" and self.opening is not None:
            self.opening.wait(_CLEANING_UP)

    @property
    def worth_telling(self) -> bool:
        """Whether something is to be said of the load. Of one that is over in a moment it is not: laying the screen
        out for it and back again would only delay the rows."""
        if self.state != "loading":
            return self.state != "loaded"
        return self.done > 0 or time.monotonic() - self.started >= MOMENT

    @property
    def rate(self) -> float:
        """Bytes per second since the first of them; 0 where that is not known yet."""
        elapsed = time.monotonic() - self.started
        return (self.done - self.first_done) / elapsed if elapsed > 0.2 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """At the rate so far; None where the size or the rate is not known."""
        if not self.total or not self.rate:
            return None
        return max(0.0, (self.total - self.done) / self.rate)
