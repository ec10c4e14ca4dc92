"""Single cycles much slower than the others."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ..evidence.cycle_times import ENOUGH, Excess
from ..rule import Evidence, Rule, Unchecked

LEAST = 1.2
"""The longest must take this many times the median to be worth a line."""


class SlowCycles(Struct, frozen=True):
    """The slow cycles, of how many, and the median in ns."""

    slow: Excess
    count: int
    median_ns: float
    word: str


def _find(evidence: Evidence) -> SlowCycles | Unchecked | None:
    cycles = evidence.measured.cycles
    if cycles is None or cycles.count < ENOUGH:
        return Unchecked("fewer than five cycles")
    if cycles.slow is None or cycles.slow.longest_ns < LEAST * cycles.median_ns:
        return None
    return SlowCycles(cycles.slow, cycles.count, cycles.median_ns, evidence.step_word)


def _sentence(found: SlowCycles) -> str:
    slow, many = found.slow, len(found.slow.cycles)
    are = "is" if many == 1 else "are"
    return (f"{many} of {found.count} {found.word}s {are} much slower than the others: number {slow.longest} takes "
            f"{units.duration(slow.longest_ns)}, the median {units.duration(found.median_ns)}.")


RULE = Rule(
    "slow cycles", "problem", _find, _sentence,
    rows=lambda found: tuple({"cycle": number} for number in found.slow.cycles[:10]),
    time_to_win_ns=lambda found: found.slow.above_ns, view="cycles", filter="outlier=true",
)
