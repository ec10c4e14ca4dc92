"""Outlier cycles, as marked in the list of cycles."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ...core.distribution import LEAST_FOR_OUTLIERS
from ..evidence.cycle_times import Excess
from ..rule import Evidence, Rule, Unchecked


class SlowCycles(Struct, frozen=True):
    """The slow cycles, the number of all cycles, and the median in ns."""

    slow: Excess
    count: int
    median_ns: float
    word: str


def _find(evidence: Evidence) -> SlowCycles | Unchecked | None:
    cycles = evidence.measured.cycles
    if cycles is None or cycles.count < LEAST_FOR_OUTLIERS:
        return Unchecked(f"fewer than {LEAST_FOR_OUTLIERS} cycles")
    if cycles.slow is None:
        return None
    return SlowCycles(cycles.slow, cycles.count, cycles.median_ns, evidence.step_word)


def _sentence(cycles: SlowCycles) -> str:
    slow, many = cycles.slow, len(cycles.slow.cycles)
    are = "is an outlier:" if many == 1 else "are outliers, the longest"
    return (f"{many} of {cycles.count} {cycles.word}s {are} #{slow.longest}, {units.duration(slow.longest_ns)} (median "
            f"{units.duration(cycles.median_ns)}).")


RULE = Rule(
    "slow cycles", "problem", _find, _sentence,
    rows=lambda cycles: tuple({"cycle": number} for number in cycles.slow.cycles[:10]),
    cost_ns=lambda cycles: cycles.slow.above_ns, view="cycles", filter="outlier=true",
)
