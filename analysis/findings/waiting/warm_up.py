"""Warm-up cycles, which make means longer than the steady state."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ..evidence.cycle_times import Excess
from ..rule import Evidence, Rule, Unchecked


class WarmUp(Struct, frozen=True):
    """The warm-up cycles and the median of the other cycles, ns."""

    warm_up: Excess
    median_ns: float
    word: str


def _find(evidence: Evidence) -> WarmUp | Unchecked | None:
    cycles = evidence.measured.cycles
    if cycles is None:
        return Unchecked("no cycles with times")
    return None if cycles.warm_up is None else WarmUp(cycles.warm_up, cycles.median_ns, evidence.step_word)


def _sentence(cycles: WarmUp) -> str:
    many = len(cycles.warm_up.cycles)
    first = f"The first {cycles.word} is" if many == 1 else f"{many} {cycles.word}s at the start are"
    return (f"{first} warm-up: up to {units.duration(cycles.warm_up.longest_ns)}, where the median is "
            f"{units.duration(cycles.median_ns)}.")


RULE = Rule(
    "warm-up", "fact", _find, _sentence,
    rows=lambda cycles: tuple({"cycle": number} for number in cycles.warm_up.cycles[:10]), view="cycles",
    filter="warm_up=true",
)
