"""Many kernels so short that launching them costs as much as running them."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ...core.names.short_name import fit_name
from ..evidence.kernel_times import SHORT_NS, Named
from ..rule import Evidence, Rule, Unchecked
from ..spread import share_text

MANY, MOST, SHARE = 200, 0.5, 0.15
"""At least so many launches, more than this share of all launches, and more than this share of the kernel time."""
_KERNEL = 40


class ShortKernels(Struct, frozen=True):
    """The short kernels, and the launches and time (ns) of all kernels."""

    short: Named
    count: int
    total_ns: int


def _find(evidence: Evidence) -> ShortKernels | Unchecked | None:
    kernels = evidence.measured.kernels
    if kernels is None:
        return Unchecked("no kernels are recorded one by one")
    short = kernels.short
    if short is None or short.count < MANY or short.count <= MOST * kernels.count:
        return None
    return ShortKernels(short, kernels.count, kernels.total_ns) if short.total_ns > SHARE * kernels.total_ns else None


def _sentence(kernels: ShortKernels) -> str:
    short = kernels.short
    return (f"Tiny kernels: {units.count(short.count)} of {units.count(kernels.count)} take under "
            f"{units.duration(SHORT_NS)} each, {share_text(short.total_ns / kernels.total_ns)} of the kernel time in "
            f"all, most {fit_name(short.name, _KERNEL)}; fusing them or a CUDA graph would help.")


RULE = Rule(
    "short kernels", "hint", _find, _sentence, rows=lambda kernels: kernels.short.rows, view="kernels",
    filter="p50_ns<5us",
)
