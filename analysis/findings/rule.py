"""What a finding is: data that a rule takes from the evidence, and one sentence made of it at the end.

A rule is a file of this folder with one ``RULE``. It looks at the evidence, returns its numbers or None, and makes the
sentence from these numbers alone, so that nothing is said that nobody can check. One fact is one finding, however many
devices share it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar

from msgspec import Struct, field, to_builtins

from ..communication.devices import Communication
from ..core import units
from .evidence.measured import Measured
from .evidence.waits import Waits

WAITING = 0.05  # Share of a step that waiting for data, for copies or for other ranks must take to be mentioned.
IDLE = 0.3  # Devices idle for more than this share of a step are worth asking why...
BLAME = 0.4  # ...and what takes this share of the idle time is an answer.
EARLY = 0.05  # Share of the launched activities that begin before their launch from which clocks are not trusted.
NO_CAUSES = "no device activity with times is recorded"
Severity = Literal["problem", "hint", "fact", "unchecked"]
"""``problem``: time is lost; ``hint``: worth a look; ``fact``: what a reader needs to judge the rest; ``unchecked``:
the recording lacks what the rule looks at."""
Numbers = TypeVar("Numbers")


class Evidence(Struct, frozen=True):
    """What is known about a run: times are means per step (over its window) in ns, shares 0-1, missing values None.
    ``on_cpu`` and ``queued`` are shares of a step summed over threads, so they can pass 1. ``early`` of ``launched``
    device activities began before the call that launched them. ``steps_each`` is the steps of one rank, ``measured``
    what the rules take from the whole recording, ``costliest`` the kernel that takes most time of all ``devices``
    together, ``busy`` how busy each device is in the steps (``device busy of_ns``, the last where it is active in a
    part of them only); ``in_steps`` whether there are any; ``families`` how the summed device time in the steps divides
    by kernel family, for each device; ``in_all`` as ``busy``, of all that was recorded."""

    steps: int
    step_ns: float
    times: dict[str, float]
    devices: list[dict[str, Any]]
    top: list[dict[str, Any]]
    bound: dict[str, float] = field(default_factory=dict)
    communication: tuple[Communication, ...] = ()
    median_kernel_ns: float | None = None
    launches: float | None = None
    on_cpu: float | None = None
    queued: float | None = None
    early: int = 0
    launched: int = 0
    serialised: bool = False
    step_word: str = "step"
    steps_each: int = 1
    measured: Measured = Measured()
    costliest: dict[str, Any] | None = None
    busy: list[dict[str, Any]] = field(default_factory=list)
    in_steps: bool = False
    families: list[dict[str, Any]] = field(default_factory=list)
    in_all: list[dict[str, Any]] = field(default_factory=list)

    @property
    def part(self) -> PartOfStep:
        """The step that parts are parts of."""
        return PartOfStep(self.step_ns, self.step_word)

    @property
    def clocks_disagree(self) -> bool:
        """Whether more activities begin before their launch than the rounding of timestamps makes."""
        return bool(self.early) and self.early >= EARLY * self.launched

    @property
    def doubt(self) -> str | None:
        """Why it cannot be told what devices waited for; None where it can."""
        waits = self.measured.waits
        if waits is None:
            return NO_CAUSES
        return "the clocks of host and device disagree" if self.clocks_disagree else waits.doubt

    @property
    def attributed(self) -> Waits | Unchecked:
        """What the device with most idle time waited for, or why that cannot be told."""
        return Unchecked(self.doubt or NO_CAUSES) if self.doubt or not self.measured.waits else self.measured.waits

    @property
    def where(self) -> str:
        """' in steps' where sentences are about those, not about the whole recording."""
        return " in steps" if self.in_steps else ""

    @property
    def idle_ns(self) -> float:
        """Time of a step in which devices did nothing that was recorded."""
        return sum(self.times.get(name, 0.0) for name in ("DataLoader", "Runtime", "CPU Exec", "Other"))


class PartOfStep(Struct, frozen=True):
    """A step (or cycle, or recording) of a mean length, ns."""

    step_ns: float
    word: str

    def of(self, ns: float) -> str:
        """A time as a part of the step, in words: '60% of the step (600 ms of 1.00 s)'."""
        share = 100 * ns / self.step_ns
        places = 0 if share >= 10 else 1
        times = f"({units.duration(ns)} of {units.duration(self.step_ns)})"
        return f"{units.percent(share, places=places)} of the {self.word} {times}"


class Finding(Struct, frozen=True):
    """What a rule found: a sentence, the rows it rests on, and the view to go to next with the filter that shows them.
    ``cost_ns`` is the time the sentence is about, over the whole recording: it puts findings in order and predicts
    nothing. ``change`` is what a replay is asked for to predict ``time_to_win_ns``, per cycle: None where none is."""

    rule: str
    severity: Severity
    sentence: str
    rows: tuple[dict[str, Any], ...] = ()
    time_to_win_ns: float | None = None
    view: str | None = None
    filter: str | None = None
    cost_ns: float | None = None
    change: str | None = None

    @property
    def fact(self) -> dict[str, Any]:
        """The finding as facts of an answer have it."""
        return {name: value for name, value in to_builtins(self).items() if name != "cost_ns"}


class Unchecked(Struct, frozen=True):
    """Why a rule could not look, as the end of a sentence."""

    why: str


class Rule(Struct, Generic[Numbers], frozen=True):
    """One question to the evidence. ``find`` gives its numbers, None, or why it cannot be told."""

    id: str
    severity: Severity
    find: Callable[[Evidence], Numbers | Unchecked | None]
    sentence: Callable[[Numbers], str]
    rows: Callable[[Numbers], tuple[dict[str, Any], ...]] = lambda _: ()
    cost_ns: Callable[[Numbers], float | None] = lambda _: None
    view: str | None = None
    filter: str | None = None
    change: Callable[[Numbers], str | None] = lambda _: None
    win_ns: Callable[[Numbers], float | None] = lambda _: None

    def ask(self, evidence: Evidence) -> Finding | None:
        """The finding, where there is one."""
        numbers = self.find(evidence)
        if numbers is None:
            return None
        if isinstance(numbers, Unchecked):
            return Finding(self.id, "unchecked", numbers.why)
        return Finding(
            self.id, self.severity, self.sentence(numbers), self.rows(numbers), self.win_ns(numbers), self.view,
            self.filter, self.cost_ns(numbers), self.change(numbers),
        )
