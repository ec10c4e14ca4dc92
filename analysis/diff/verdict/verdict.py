"""The whole verdict of a comparison as data: what stands beside the rows of the diff, for exports and for the gate."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, convert, to_builtins

from ..prepare.collectives import CollectiveTiming
from .comparability import Comparability
from .cycle_time import CycleTime
from .device_work import DeviceWork
from .explanation import Cause
from .idle_changes import IdleChange
from .per_launch import LaunchChange
from .resources import ChangedResource

Samples = Literal["cycles", "launches", "runs", "aggregates", "a finished comparison"]


class FunctionNoise(Struct, frozen=True):
    """By how much two halves of the baseline differ in one function, ms per cycle."""

    function: str
    device: str | None
    pid_a: int | None
    noise_ms: float


class Calibration(Struct, frozen=True):
    """How the noise of the rows was found; ``row_ms`` is how far a row moves by chance, per category the most."""

    method: str = "none"
    row_ms: float | None = None
    categories: dict[str, float] = {}
    functions: tuple[FunctionNoise, ...] = ()


class CategoryTime(Struct, frozen=True):
    """One category of the step breakdown in both runs, mean ms per step."""

    category: str
    a_ms: float
    b_ms: float

    @property
    def delta_ms(self) -> float:
        """B minus A."""
        return self.b_ms - self.a_ms


class UnitOfWork(Struct, frozen=True):
    """What both runs did so many times, where that is not a cycle: a call of the function that takes most time."""

    what: str
    anchor: str
    units_a: int
    units_b: int


class Verdict(Struct, frozen=True):
    """What two runs differ by. ``cycle_time`` is None where neither cycles nor a unit of work were found."""

    comparability: Comparability
    explanation: str
    samples: Samples
    cycle_time: CycleTime | None = None
    work: tuple[DeviceWork, ...] = ()
    resources: tuple[ChangedResource, ...] = ()
    idle: tuple[IdleChange, ...] = ()
    cause: Cause = Cause()
    calibration: Calibration = Calibration()
    collectives: tuple[CollectiveTiming, ...] = ()
    breakdown: tuple[CategoryTime, ...] = ()
    unit_of_work: UnitOfWork | None = None
    per_launch: tuple[LaunchChange, ...] = ()
    runs_a: int = 1
    runs_b: int = 1

    def facts(self) -> dict[str, Any]:
        """The verdict in plain values, as exports carry it."""
        made: dict[str, Any] = to_builtins(self)
        return made


def verdict_of(facts: dict[str, Any]) -> Verdict:
    """The verdict that ``facts`` was written from."""
    return convert(facts, Verdict)
