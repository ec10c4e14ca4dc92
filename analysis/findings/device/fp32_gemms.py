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
_KERNEL = 40


class FullPrecision(Struct, frozen=True):
    """The FP32 products, the time of all kernels in ns, and the types that tensor cores of the devices multiply."""

    kernels: Named
    total_ns: int
    types: tuple[str, ...]


def _find(evidence: Evidence) -> FullPrecision | Unchecked | None:
    kernels = evidence.measured.kernels
    if kernels is None:
        return Unchecked("no kernels are recorded one by one")
    if kernels.fp32 is None or kernels.fp32.total_ns <= LEAST * kernels.total_ns or kernels.tensor_types == ():
        return None
    if kernels.tensor_types is None:
        return Unchecked("whether the device has tensor cores is not recorded")
    return FullPrecision(kernels.fp32, kernels.total_ns, kernels.tensor_types)


def _sentence(found: FullPrecision) -> str:
    some = found.kernels
    share = share_text(some.total_ns / found.total_ns)
    types = " or ".join((", ".join(found.types[:-1]), found.types[-1])) if found.types[1:] else found.types[0]
    return (f"FP32 products and convolutions take {share} of the kernel time without tensor cores, most "
            f"{fit_name(some.name, _KERNEL)} ({units.duration(some.name_ns)}): {types} would use them.")


RULE = Rule(
    "fp32", "hint", _find, _sentence,
    rows=lambda found: ({"name": found.kernels.name, "total_ns": found.kernels.name_ns},),
    # twice as fast is the least a tensor core gives over an FP32 unit
    time_to_win_ns=lambda found: found.kernels.total_ns / 2, view="kernels", filter="name~sgemm|cudnn|grad|simt",
)
