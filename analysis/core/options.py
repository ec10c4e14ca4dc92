"""What a question may be asked with: scope, thresholds, and how cycles are found."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field


class Thresholds(Struct, frozen=True):
    """When a kernel is called bound by something: fractions of peak, and how short a launch-bound one is."""

    tensor: float = 0.5
    dram: float = 0.5
    idle: float = 0.1
    launch_ns: int = 5_000
    launches: int = 10


class Options(Struct, frozen=True):
    """The state of a question that is not its data.

    ``cycle`` limits the answer to one cycle of run A (``cycle_b``: of run B), ``cycle_anchor`` is a regular expression
    that overrides how cycles are found, ``pid_a``/``pid_b`` pick one pair of processes, ``warm_up`` includes warm-up
    cycles in statistics. ``side`` picks the run of a view that shows one at a time.
    """

    cycle: int | None = None
    cycle_b: int | None = None
    cycle_anchor: str | None = None
    pid_a: int | None = None
    pid_b: int | None = None
    warm_up: bool = True
    from_ns: int | None = None
    to_ns: int | None = None
    columns: int = 100
    side: Literal["a", "b"] = "a"
    thresholds: Thresholds = field(default_factory=Thresholds)
