"""GEMMs and convolutions on the FP32 units of a device that has tensor cores."""

from __future__ import annotations

from msgspec import Struct

from ...core import units
from ...core.names.short_name import fit_name
from ..evidence.below_peak import Below
from ..evidence.kernel_times import Named
from ..rule import Evidence, Rule, Unchecked
from ..spread import share_text
from ..work.below import win

LEAST = 0.05  # Share of the kernel time, and of the steps on all devices, below which this is not mentioned.
_KERNEL = 40


class FullPrecision(Struct, frozen=True):
    """The FP32 products, the time of all kernels in ns, and the types that the devices' tensor cores support."""

    kernels: Named
    total_ns: int
    types: tuple[str, ...]
    win: Below | None = None
    word: str = "step"


def _find(evidence: Evidence) -> FullPrecision | Unchecked | None:
    kernels = evidence.measured.kernels
    if kernels is None:
        return Unchecked("no kernels are recorded one by one")
    steps_ns = evidence.step_ns * evidence.steps
    least = LEAST * max(kernels.total_ns, steps_ns * len(evidence.devices))
    if kernels.fp32 is None or kernels.fp32.total_ns <= least or kernels.tensor_types == ():
        return None
    if kernels.tensor_types is None:
        return Unchecked("whether the device has tensor cores is not recorded")
    win = (evidence.measured.below_peak or {}).get("fp32")
    if win is not None and win.win_ns is not None and not win.worth_saying(steps_ns):
        return None  # these products are off the critical path
    return FullPrecision(kernels.fp32, kernels.total_ns, kernels.tensor_types, win, evidence.step_word)


def _sentence(products: FullPrecision) -> str:
    kernels, types = products.kernels, products.types
    share = share_text(kernels.total_ns / products.total_ns)
    either = " or ".join((", ".join(types[:-1]), types[-1])) if types[1:] else types[0]
    return (f"FP32 GEMMs and convolutions take {share} of the kernel time without tensor cores, most "
            f"{fit_name(kernels.name, _KERNEL)} ({units.duration(kernels.name_ns)}): {either} would use them"
            f"{_won(products)}.")


def _won(products: FullPrecision) -> str:
    """The saving the replay predicts, if the work of these products is known."""
    one = products.win
    return f" and {win(one, products.word)}" if one is not None and one.win_ns is not None else ""


def _cost(products: FullPrecision) -> float:
    """The saving by the replay, else half of the time: tensor cores are at least twice as fast as FP32 units."""
    win = products.win
    return products.kernels.total_ns / 2 if win is None or win.win_ns is None else win.cost_ns


RULE = Rule(
    "fp32", "hint", _find, _sentence, rows=lambda products: products.kernels.rows, cost_ns=_cost,
    win_ns=lambda products: products.win.win_ns if products.win is not None else None, view="kernels",
    filter="name~sgemm|scudnn|ffma|simt_s|f32f32|(gemm|convolve|fprop|[dw]grad)[^<]*<(int,.)?float",
)
