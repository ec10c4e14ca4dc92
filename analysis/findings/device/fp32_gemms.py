"""Matrix products and convolutions on FP32 units of a device that has tensor cores."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ...core.names.short_name import fit_name
from ..evidence.kernel_times import Named
from ..rule import Evidence, Rule, Unchecked
from ..spread import share_text

LEAST = 0.05
"""Share of the kernel time below which this is not mentioned."""
_KERNEL = 32


class FullPrecision(Struct, frozen=True):
    """The FP32 products and the time of all kernels, ns."""

    kernels: Named
    total_ns: int


def _find(evidence: Evidence) -> FullPrecision | Unchecked | None:
    kernels = evidence.measured.kernels
    if kernels is None:
        return Unchecked("no kernels are recorded one by one")
    if kernels.fp32 is None or kernels.fp32.total_ns <= LEAST * kernels.total_ns or kernels.generation is False:
        return None
    if kernels.generation is None:
        return Unchecked("whether the device has tensor cores is not recorded")
    return FullPrecision(kernels.fp32, kernels.total_ns)


def _sentence(found: FullPrecision) -> str:
    some = found.kernels
    share = share_text(some.total_ns / found.total_ns)
    return (f"FP32 products and convolutions take {share} of the kernel time without tensor cores, most "
            f"{fit_name(some.name, _KERNEL)} ({units.duration(some.name_ns)}): TF32 or half precision could use them.")


RULE = Rule(
    "fp32", "hint", _find, _sentence,
    rows=lambda found: ({"name": found.kernels.name, "total_ns": found.kernels.name_ns},),
    # twice as fast is the least a tensor core gives over an FP32 unit
    time_to_win_ns=lambda found: found.kernels.total_ns / 2, view="kernels", filter="name~sgemm|cudnn|grad|simt",
)
