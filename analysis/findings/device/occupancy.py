"""Low occupancy: kernels with few warps per SM, and what limits them."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ...core.names.short_name import fit_name
from ..evidence.kernel_times import Starved
from ..rule import Evidence, Rule, Unchecked
from ..spread import share_text

LEAST = 0.1  # Share of the kernel time below which this is not mentioned.
_KERNEL = 40


class LowOccupancy(Struct, frozen=True):
    """The kernels with one limiter, and the time of all kernels, ns."""

    starved: Starved
    total_ns: int


def _find(evidence: Evidence) -> LowOccupancy | Unchecked | None:
    kernels, recorded = evidence.measured.kernels, evidence.measured.recorded
    if recorded is not None and any(one.section == "Occupancy" for one in recorded.found):
        return None  # the profiler's own rule says it
    if kernels is None or not kernels.shaped:
        return Unchecked("registers and block sizes of kernels are not recorded")
    starved = kernels.starved
    if starved is None or starved.kernels.total_ns <= LEAST * kernels.total_ns:
        return None
    return LowOccupancy(starved, kernels.total_ns)


def _sentence(low: LowOccupancy) -> str:
    kernels = low.starved.kernels
    share = share_text(kernels.total_ns / low.total_ns)
    return (f"Low occupancy, {share_text(low.starved.occupancy)}, in {share} of the kernel time, limited by "
            f"{low.starved.limiter}; most in {fit_name(kernels.name, _KERNEL)} ({units.duration(kernels.name_ns)}).")


RULE = Rule(
    "occupancy", "hint", _find, _sentence,
    rows=lambda low: ({**low.starved.kernels.rows[0], "limiter": low.starved.limiter,
                       "occupancy": low.starved.occupancy},), view="kernels",
)
