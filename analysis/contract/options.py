"""The options of a question: scope, thresholds, and how cycles are found."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

Side = Literal["a", "b"]
Window = tuple[int | None, int | None]  # From, to in ns; None is no limit.
SIDES: tuple[Side, Side] = ("a", "b")


class Thresholds(Struct, frozen=True):
    """Limits for what bounds a kernel: fractions of peak, and how short a launch-bound kernel is."""

    tensor: float = 0.5
    dram: float = 0.5
    idle: float = 0.1
    launch_ns: int = 5_000
    launches: int = 10


class Scope(Struct, frozen=True):
    """The part of one run that a question is about; all None is the whole run. ``from_ns`` and ``to_ns`` count from the
    start of the trace, in a job on the clock of its first rank, and select what begins at or after the first and before
    the second."""

    cycle: int | None = None
    pid: int | None = None
    rank: int | None = None
    device: str | None = None
    from_ns: int | None = None
    to_ns: int | None = None


class Options(Struct, frozen=True):
    """The parameters of a question. ``cycle`` limits the answer to one cycle of run A (``cycle_b``: of run B),
    ``pid_a``/``pid_b`` to a process and ``rank``/``rank_b`` to a rank; ``device`` and the window ``from_ns``..``to_ns``
    apply to both runs, unless ``window_b`` gives run B its own. ``cycle_anchor`` is a regular expression that overrides
    how cycles are found, ``warm_up`` includes warm-up cycles, ``changes`` are replayed together by the what-if view."""

    cycle: int | None = None
    cycle_b: int | None = None
    cycle_anchor: str | None = None
    pid_a: int | None = None
    pid_b: int | None = None
    rank: int | None = None
    rank_b: int | None = None
    device: str | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    window_b: Window | None = None
    warm_up: bool = True
    columns: int = 100
    changes: tuple[str, ...] = ()
    thresholds: Thresholds = field(default_factory=Thresholds)

    def scope(self, side: Side = "a") -> Scope:
        """The part of that run that the question is about."""
        of_a = side == "a"
        window = self.window_b if self.window_b is not None and not of_a else (self.from_ns, self.to_ns)
        return Scope(
            self.cycle if of_a else self.cycle_b, self.pid_a if of_a else self.pid_b,
            self.rank if of_a else self.rank_b, self.device, *window,
        )

    def swapped(self) -> Options:
        """The options for the runs in reverse order."""
        window = self.scope("b")
        return replace(
            self, cycle=self.cycle_b, cycle_b=self.cycle, pid_a=self.pid_b, pid_b=self.pid_a, rank=self.rank_b,
            rank_b=self.rank, from_ns=window.from_ns, to_ns=window.to_ns,
            window_b=None if self.window_b is None else (self.from_ns, self.to_ns),
        )

    def any_cycle(self) -> Options:
        """The options without the limit to a cycle."""
        return replace(self, cycle=None, cycle_b=None)

    def without_part(self, window: bool = True) -> Options:
        """The options for runs already restricted: only the cycle limit is left (and the window, if not ``window``)."""
        rest = replace(self, pid_a=None, pid_b=None, rank=None, rank_b=None, device=None)
        return rest.without_window() if window else rest

    def without_window(self) -> Options:
        """The options without the limit to a time window."""
        return replace(self, from_ns=None, to_ns=None, window_b=None)


def number_of_columns(given: object) -> int:
    """The number of columns of a timeline, as typed or given. Raises ValueError with a sentence."""
    text = str(given)
    if not text.isdecimal() or len(text) > 5 or not 1 <= int(text) <= 10_000:
        raise ValueError(f"{text} is not a number of columns from 1 to 10,000")
    return int(text)
