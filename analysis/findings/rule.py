"""A finding: data that a rule takes from the evidence, turned into one sentence at the end.

A rule is a function with the decorator ``rule`` and a line in ``rules.RULES``. It takes its numbers from the evidence,
or None, and makes the sentence from these numbers alone, so that every claim can be checked. One fact is one finding,
however many devices share it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple
from warnings import warn

from msgspec import Struct, field, to_builtins

from ..communication.devices import Communication
from ..core import units
from .evidence.measured import Measured
from .evidence.waits import Waits

WAITING = 0.05  # Share of a step that waiting for data, copies or other ranks must take to be mentioned.
IDLE = 0.3  # Idle time above this share of a step needs an explanation...
BLAME = 0.4  # ...and a cause that takes this share of it is one.
EARLY = 0.05  # Clocks are not trusted if at least this share of launched activities begin before their launch.
NO_CAUSES = "no device activity with times is recorded"
Severity = Literal["problem", "hint", "fact", "unchecked"]
"""``problem``: time is lost; ``hint``: worth a look; ``fact``: context for the other findings; ``unchecked``: the
recording lacks what the rule needs."""


class Evidence(Struct, frozen=True):
    """Everything the rules know about a run: times are means per step (over its window) in ns, shares 0-1, missing
    values None. ``on_cpu`` and ``queued`` are shares of a step summed over threads, so they can exceed 1. ``early`` of
    ``launched`` device activities began before their launch call. ``steps_each`` is the steps of one rank,
    ``measured`` the evidence by subject, ``costliest`` the kernel with most time over all ``devices``, ``busy`` the
    busy share of each device in the steps (``device busy of_ns``; ``of_ns`` only if it is active in a part of them),
    ``in_steps`` whether there are steps, ``families`` each device's time in the steps by kernel family (``device rank
    families``, the last ns by name), ``in_all`` the same as ``busy`` for the whole recording. ``base_ns``: the step
    that sentences name, that of the fact ``step``."""

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
    base_ns: float | None = None

    @property
    def part(self) -> PartOfStep:
        """The step, for expressing times as parts of it."""
        return PartOfStep(self.base_ns or self.step_ns, self.step_word)

    def each(self, ns: float, window_ns: float) -> str:
        """A time of one rank in its steps as a part of the mean step; without steps of that window."""
        return self.part.of(ns / max(1, self.steps_each)) if self.in_steps else units.part_of(ns, window_ns)

    @property
    def clocks_disagree(self) -> bool:
        """Whether more activities begin before their launch than rounding of timestamps can explain."""
        return bool(self.early) and self.early >= EARLY * self.launched

    @property
    def doubt(self) -> str | None:
        """Why the causes of idle time are unknown; None if they are known."""
        waits = self.measured.waits
        if waits is None:
            return NO_CAUSES
        return "the clocks of host and device disagree" if self.clocks_disagree else waits.doubt

    @property
    def attributed(self) -> Waits | Unchecked:
        """The waits of the device with most idle time, or why they are unknown."""
        return Unchecked(self.doubt or NO_CAUSES) if self.doubt or not self.measured.waits else self.measured.waits

    @property
    def where(self) -> str:
        """' in steps' if sentences are about the steps, not the whole recording."""
        return " in steps" if self.in_steps else ""

    @property
    def idle_ns(self) -> float:
        """Time per step without recorded device activity."""
        return sum(self.times.get(name, 0.0) for name in ("DataLoader", "Runtime", "CPU Exec", "Other"))


WHOLE = ("recording", "run")
"""What figures are of where there are no steps."""


class PartOfStep(Struct, frozen=True):
    """A step (or cycle, or recording) of a mean length, ns."""

    step_ns: float
    word: str

    def of(self, ns: float) -> str:
        """A time as a part of the step, in words: '600 ms of 1.00 s a step'; of a recording without 'a step'."""
        return units.part_of(ns, self.step_ns) + ("" if self.word in WHOLE else f" {units.each(self.word)}")


class Finding(Struct, frozen=True):
    """The result of a rule: a sentence, the rows it rests on, and the view to open next with the filter to set there;
    ``short``: the sentence in 54 cells, '' where it is shortened as it is.
    ``cost_ns`` is the time the sentence is about, over the whole recording: it ranks findings and predicts nothing.
    ``change`` is the replay's change that predicts ``time_to_win_ns`` per cycle; None if there is no such change.
    ``at_most_ns``: the time it is about per cycle (of the recording without cycles): more it cannot save.
    ``of_ns``: the step it is a part of, where that is not the mean step of all devices but the one device's own."""

    rule: str
    severity: Severity
    sentence: str
    rows: tuple[dict[str, Any], ...] = ()
    time_to_win_ns: float | None = None
    view: str | None = None
    filter: str | None = None
    cost_ns: float | None = None
    change: str | None = None
    short: str = ""
    at_most_ns: float | None = None
    of_ns: float | None = None

    @property
    def fact(self) -> dict[str, Any]:
        """The finding as it stands in the facts of an answer."""
        return {name: value for name, value in to_builtins(self).items() if name != "cost_ns"}


class Unchecked(Struct, frozen=True):
    """Why a rule could not be checked, as the end of a sentence."""

    why: str


class Said(NamedTuple):
    """What a rule has to say: the sentence, the rows it rests on, and what ``Finding`` tells of cost and change. A
    ``hint`` it stays where its evidence is only likely, whatever the severity of its rule. ``short`` is the sentence in
    54 cells."""

    sentence: str
    rows: tuple[dict[str, Any], ...] = ()
    cost_ns: float | None = None
    change: str | None = None
    win_ns: float | None = None
    hint: bool = False
    short: str = ""
    of_ns: float | None = None


Find = Callable[[Evidence], "Said | Unchecked | None"]


class Rule:
    """One rule, made by the decorator ``rule``. ``find`` says what it has found, None if nothing, or why the rule is
    unchecked. Rules of other packages may still be written the old way, with ``sentence`` and the other functions of
    what ``find`` returns, until version 0.2."""

    def __init__(
        self, id: str, severity: Severity, find: Callable[[Evidence], Any],
        sentence: Callable[[Any], str] | None = None, view: str | None = None, filter: str | None = None,
        **functions: Callable[[Any], Any],
    ) -> None:
        self.id, self.severity, self.view, self.filter = id, severity, view, filter
        self.find: Find = _of_old_shape(id, find, sentence, functions) if sentence else find

    @property
    def looks_for(self) -> str:
        """What the rule looks for: the first line of its function's docstring."""
        return (self.find.__doc__ or "").strip().partition("\n")[0]

    def ask(self, evidence: Evidence) -> Finding | None:
        """The finding; None if the rule has nothing to report."""
        said = self.find(evidence)
        if said is None:
            return None
        if isinstance(said, Unchecked):
            return Finding(self.id, "unchecked", said.why)
        return Finding(self.id, "hint" if said.hint else self.severity, said.sentence, said.rows, said.win_ns,
                       self.view, self.filter, said.cost_ns, said.change, said.short.rstrip("."),
                       None if said.cost_ns is None else said.cost_ns / max(1, evidence.steps_each), said.of_ns)


def _of_old_shape(
    id: str, find: Callable[[Evidence], Any], sentence: Callable[[Any], str], functions: dict[str, Callable[[Any], Any]]
) -> Find:
    warn(f"rule {id!r}: make it one function with the decorator warplens.analysis.findings.rule.rule",
         DeprecationWarning, stacklevel=3)

    def find_and_say(evidence: Evidence) -> Said | Unchecked | None:
        numbers = find(evidence)
        if numbers is None or isinstance(numbers, Unchecked):
            return numbers
        return Said(sentence(numbers), **{name: function(numbers) for name, function in functions.items()})

    return find_and_say


def rule(id: str, severity: Severity, view: str, filter: str | None = None) -> Callable[[Find], Rule]:
    """Decorator: a function that finds something becomes a rule; its docstring is the line in docs/findings.md."""
    return lambda find: Rule(id, severity, find, view=view, filter=filter)
